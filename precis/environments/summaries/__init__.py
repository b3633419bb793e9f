"""Summaries: the environment that trains a policy to keep a document's facts.

environment  the rollout: a summary, its verdict, and the score that follows
task         the prompt, the limits, and what can be said of a summary without a judge
judge/       what a judge is asked, and what its replies are worth
warm_start/  the summaries that are imitated before the first step
services     what it needs to be up: judges and the local stand-ins
"""
