"""The warm start: summaries that are worth imitating, before the first step of reinforcement.

documents       what is set apart for it
files           summaries that somebody has
best_of_n       the policy's own, chosen by the judge
demonstrations  what was collected, kept in the store, and how it is trained on
"""
