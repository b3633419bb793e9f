"""What becomes of a flow run whose managed job could not be launched."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from precis.cluster.jobs import ManagedJob
from precis.config import ManagedConfig
from precis.errors import ClusterError
from tasks import managed

CONFIG = ManagedConfig.model_validate({"store": "s3://b/runs", "cluster": {"where": "sky"}})


class SkyPilot:
    """Loses the answer to a launch; afterwards the queue says what it is given to say."""

    def __init__(self, *answers: ManagedJob | ClusterError | None) -> None:
        self._answers = iter([None, *answers])

    async def find(self, _: str) -> ManagedJob | None:
        answer = next(self._answers)
        if isinstance(answer, ClusterError):
            raise answer
        return answer

    async def launch(self, *_: Any) -> tuple[int, bool]:
        raise ClusterError("The API server was restarted.")


async def launched(skypilot: SkyPilot, patch: pytest.MonkeyPatch) -> list[str]:
    """The flow runs that were dropped because no job executes them."""
    dropped: list[str] = []

    async def make(*_: Any) -> Any:
        return SimpleNamespace(id="a-run", name="train m")

    async def drop(run: Any) -> None:
        dropped.append(run.id)

    async def prices(_: Any) -> dict[str, Any]:
        return {}

    patch.setattr(managed, "jobs", skypilot)
    patch.setattr(managed, "_make_run", make)
    patch.setattr(managed, "_drop_run", drop)
    patch.setattr(managed, "prices", prices)
    patch.setattr(managed, "check_free", lambda *_: None)
    patch.setattr(managed, "open_store", lambda _: SimpleNamespace(url="s3://b/runs"))
    patch.setattr(managed, "managed_task", lambda *_: None)
    patch.setattr(managed, "get_run_logger", lambda: logging.getLogger(__name__))
    nobody: Any = None
    with pytest.raises(ClusterError, match="was restarted"):
        await managed.launch_job.fn(CONFIG, nobody)
    return dropped


async def test_without_a_job_nobody_executes_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await launched(SkyPilot(None), monkeypatch) == ["a-run"]


async def test_a_job_that_may_have_been_taken_finds_its_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next try finds the job, which would end at once if its run were over."""
    away = ClusterError("SkyPilot does not answer.")
    assert await launched(SkyPilot(away), monkeypatch) == []
    taken = ManagedJob(1, "precis-m", "STARTING", 0)
    assert await launched(SkyPilot(taken), monkeypatch) == []
