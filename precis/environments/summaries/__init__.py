"""Summaries: the environment that trains a policy to keep a document's facts.

environment  the rollout: a summary, its verdict, and the score that follows
services     what it needs to be up: judges and the local stand-ins
"""
