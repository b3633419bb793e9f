"""The run's log in Prefect, for what is logged where nobody knows Prefect.

A server that answers nobody, a lock that is waited for and a lease in trouble are noticed far
below the tasks. Whoever watches the run is to read of them there.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from prefect.exceptions import MissingContextError
from prefect.logging import get_run_logger

_LOGGERS = ("precis.llm.silence", "precis.processes.file_lock", "precis.run.lease")


class _RunLogHandler(logging.Handler):
    """Hands records on to the log of the task or flow in which they were made."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            logger = get_run_logger()
        except MissingContextError:  # a thread of its own
            logging.getLogger().handle(record)
            return
        logger.log(record.levelno, "%s", record.getMessage())


@contextmanager
def warnings_in_run_log() -> Iterator[None]:
    """Put what these loggers warn of into the run's log while the block lasts.

    A block within another one, of a flow that the flow calls, changes nothing.
    """
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    if any(isinstance(handler, _RunLogHandler) for handler in loggers[0].handlers):
        yield
        return
    handler = _RunLogHandler(logging.WARNING)
    for logger in loggers:
        logger.addHandler(handler)
        logger.propagate = False
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
            logger.propagate = True
