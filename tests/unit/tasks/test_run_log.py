"""What is warned of below the tasks stands in the run's log, once."""

import logging
from collections.abc import Iterator

import pytest
from prefect.exceptions import MissingContextError

import tasks.states
from tasks.states import lines_in_run_log

SILENCE = logging.getLogger("precis.llm.silence")


class Kept(logging.Handler):
    """Keeps what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@pytest.fixture
def run_log(monkeypatch: pytest.MonkeyPatch) -> Kept:
    """The log of the flow or task that is at work."""
    kept = Kept()
    logger = logging.Logger("run")
    logger.addHandler(kept)
    monkeypatch.setattr(tasks.states, "get_run_logger", lambda: logger)
    return kept


@pytest.fixture
def console() -> Iterator[Kept]:
    kept = Kept()
    logging.getLogger().addHandler(kept)
    yield kept
    logging.getLogger().removeHandler(kept)


def test_a_warning_stands_in_the_runs_log_once_and_nowhere_else(
    run_log: Kept, console: Kept
) -> None:
    with lines_in_run_log():
        SILENCE.warning("The judge has answered no request for %s s: 100%%.", 10)
        SILENCE.info("All is well.")
        with lines_in_run_log():
            SILENCE.warning("Once.")
        SILENCE.warning("Once more.")
    SILENCE.warning("The run has ended.")
    answered = "The judge has answered no request for 10 s: 100%."
    assert run_log.lines == [answered, "Once.", "Once more."]
    assert console.lines == ["The run has ended."]


def test_what_no_run_says_is_not_lost(console: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_is_at_work() -> logging.Logger:
        raise MissingContextError

    monkeypatch.setattr(tasks.states, "get_run_logger", none_is_at_work)
    with lines_in_run_log():
        SILENCE.warning("A thread of its own says this.")
    assert console.lines == ["A thread of its own says this."]
