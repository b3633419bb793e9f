"""The warm start: summaries that are worth imitating, before the first step of reinforcement.

documents  what is set apart for it, and the summaries of a file
files      the rows of that file
"""
