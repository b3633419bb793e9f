"""Prefect's side of the pipeline: what is retried, how it is named, what the UI shows.

A task is a step-sized unit of work that a person would want to see or retry; its body calls
`precis/`, where the work is.
"""
