"""The run's log in Prefect, for what is logged below the tasks, where nobody knows Prefect."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from prefect.exceptions import MissingContextError
from prefect.logging import get_run_logger

_LOGGERS = {
    "precis.training": logging.INFO,
    "precis.benchmark.run": logging.INFO,
    "precis.llm.silence": logging.WARNING,
    "precis.processes.file_lock": logging.WARNING,
    "precis.run.lease": logging.WARNING,
}
"""From which level on, by logger."""


class _RunLogHandler(logging.Handler):
    """Hands records on to the log of the task or flow in which they were made."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            logger = get_run_logger()
        except MissingContextError:  # its own thread
            logging.getLogger().handle(record)
            return
        told = {"logged_by": record.name}  # the terminal shows some (`cli/rehearsal.py`)
        logger.log(record.levelno, "%s", record.getMessage(), extra=told)


@contextmanager
def lines_in_run_log() -> Iterator[None]:
    """Put what these loggers say into the run's log while the block lasts.

    A block within another one, of a flow that the flow calls, changes nothing.
    """
    loggers = {logging.getLogger(name): level for name, level in _LOGGERS.items()}
    if any(isinstance(handler, _RunLogHandler) for one in loggers for handler in one.handlers):
        yield
        return
    handler = _RunLogHandler()
    levels = {logger: logger.level for logger in loggers}
    for logger, level in loggers.items():
        logger.setLevel(level)
        logger.addHandler(handler)
        logger.propagate = False
    try:
        yield
    finally:
        for logger, level in levels.items():
            logger.setLevel(level)
            logger.removeHandler(handler)
            logger.propagate = True
