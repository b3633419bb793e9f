"""Prefect's side of the pipeline: retries, names, and the UI.

A task is a unit of work that a person would want to see or retry; its body calls `precis/`, which
does the work.
"""

import logging
from contextlib import AbstractAsyncContextManager
from uuid import UUID

from prefect import flow_engine
from prefect.concurrency._leases import amaintain_concurrency_lease


def _is_news(record: logging.LogRecord) -> bool:
    """Return whether a log line of a task says more than that the task succeeded."""
    return record.levelno > logging.INFO or not str(record.msg).startswith("Finished in state")


logging.getLogger("prefect.task_runs").addFilter(_is_news)


def _hold_slot(lease: UUID, seconds: float, **_: bool) -> AbstractAsyncContextManager[None]:
    """Hold a run's slot of its deployment's limit, as long as the server knows of it.

    Prefect cancels a run that has lost its slot: minutes after a pause, which frees it, and after a
    restart of the server, which forgets it. Models are guarded by leases of ours.
    """
    return amaintain_concurrency_lease(lease, seconds, suppress_warnings=True)


flow_engine.amaintain_concurrency_lease = _hold_slot  # type: ignore[assignment, attr-defined]
