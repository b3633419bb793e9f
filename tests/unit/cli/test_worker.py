"""A worker that is told to stop, against a stand-in for Prefect's."""

import os
import signal
from types import SimpleNamespace
from typing import Any, Self
from uuid import UUID, uuid4

import httpx
import pytest
from prefect.client.schemas.objects import State, StateType
from prefect.exceptions import ObjectNotFound

from cli import worker
from cli.worker import WorkerShutdown
from precis.errors import PrecisError


class Server:
    """Knows one of two runs: the other was deleted in the UI."""

    def __init__(self, deleted: UUID, going: list[UUID]) -> None:
        self._deleted = deleted
        self._going = going

    async def read_flow_run(self, run: UUID) -> Any:
        raise ObjectNotFound(Exception("no such run"))

    async def set_flow_run_state(self, run: UUID, state: State[Any]) -> None:
        assert state.type == StateType.CANCELLING
        if run == self._deleted:
            raise ObjectNotFound(Exception("no such run"))
        self._going.remove(run)


async def test_a_run_that_was_deleted_keeps_no_other_from_being_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else that one is killed in the end, and its rented machine is left behind."""
    deleted, other = uuid4(), uuid4()
    going = [deleted, other]
    stand_in: Any = type("Worker", (), {"client": Server(deleted, going)})()
    monkeypatch.setattr(worker, "_going", lambda _: list(going))
    monkeypatch.setattr(worker, "_CANCEL_PATIENCE_S", 0.2)
    shift = WorkerShutdown()
    shift.on_terminate()
    said: list[str] = []
    with pytest.raises(PrecisError, match="Left 1 of its runs killed"):
        await worker._finish(stand_in, shift, said.append)
    assert going == [deleted]
    assert any(str(deleted) in sentence for sentence in said[1:])


async def test_an_answer_that_is_none_ends_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy's page of HTML, say; else Prefect's worker would kill all of its runs."""

    class Worker:
        limiter = SimpleNamespace(statistics=lambda: SimpleNamespace(borrowers=()))

        def __init__(self, **_: object) -> None:
            self.looks = 0

        async def __aenter__(self) -> Self:
            return self

        async def __aexit__(self, *_: object) -> None: ...

        async def get_and_submit_flow_runs(self) -> None:
            self.looks += 1
            if self.looks == 1:
                httpx.Response(200, text="<html>Back soon</html>").json()
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(worker, "ProcessWorker", Worker)
    said: list[str] = []
    await worker.work(limit=1, query_s=0.01, say=said.append)
    assert len(said) == 1
    assert "will be asked again: JSONDecodeError" in said[0]
