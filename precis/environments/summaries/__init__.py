"""Summaries: the environment that trains a policy to keep a document's facts.

`environment` has the rollout, `judge/` the judge's requests and verdicts, `warm_start` the
summaries to imitate before the first step, and `services` the judges' processes.
"""
