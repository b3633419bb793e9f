"""Prefect's side of the pipeline: retries, names, and the UI.

A task is a unit of work that a person would want to see or retry; its body calls `precis/`, which
does the work.
"""

import logging


def _is_news(record: logging.LogRecord) -> bool:
    """Return whether a log line of a task says more than that the task succeeded."""
    return record.levelno > logging.INFO or not str(record.msg).startswith("Finished in state")


logging.getLogger("prefect.task_runs").addFilter(_is_news)
