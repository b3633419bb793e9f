"""Summaries: the environment that trains a policy to keep a document's facts.

`environment` is the rollout, `judge/` what a judge is asked and what its replies are worth,
`warm_start` the summaries that are imitated before the first step, and `services` what has to be
up.
"""
