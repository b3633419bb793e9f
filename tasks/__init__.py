"""Prefect's side of the pipeline: what is retried, how it is named, what the UI shows.

A task is a step-sized unit of work that a person would want to see or retry; its body calls
`precis/`, where the work is.
"""

import logging


def _is_news(record: logging.LogRecord) -> bool:
    """Return whether a task's log line says more than that the task went well, as nearly all do."""
    return record.levelno > logging.INFO or not str(record.msg).startswith("Finished in state")


logging.getLogger("prefect.task_runs").addFilter(_is_news)
