"""What becomes of a flow run whose managed job could not be launched."""

import logging
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from prefect import State

from precis.cluster.jobs import ManagedJob
from precis.config import ManagedConfig
from precis.errors import ClusterError, NoCapacity
from tasks import managed

CONFIG = ManagedConfig.model_validate({"store": "s3://b/runs", "cluster": {"where": "sky"}})


class SkyPilot:
    """Loses the answer to a launch; afterwards the queue says what it is given to say."""

    def __init__(self, answer: ManagedJob | ClusterError | None) -> None:
        self._answers = iter([None, answer])

    async def find(self, _: str) -> ManagedJob | None:
        answer = next(self._answers)
        if isinstance(answer, ClusterError):
            raise answer
        return answer

    async def launch(self, *_: Any) -> tuple[int, bool]:
        raise ClusterError("The API server was restarted.")


class Prefect:
    """A Prefect client that notes the flow runs that are cancelled."""

    def __init__(self) -> None:
        self.cancelled: list[str] = []

    async def create_flow_run(self, *_: Any, **settings: Any) -> Any:
        return SimpleNamespace(id="a-run", name=settings["name"])

    async def set_flow_run_state(self, run: str, state: State[Any], *, force: bool) -> None:
        assert state.is_cancelled() and force
        self.cancelled.append(run)


@pytest.mark.parametrize(
    ("answer", "dropped"),
    [
        (None, ["a-run"]),
        # The next try finds the job, which would end at once if its run were over.
        (ClusterError("SkyPilot does not answer."), []),
        (ManagedJob(1, "precis-m", "STARTING", 0), []),
    ],
)
async def test_a_run_is_dropped_only_where_no_job_may_execute_it(
    answer: ManagedJob | ClusterError | None, dropped: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    prefect = Prefect()

    async def known(_: Any) -> dict[str, Any]:
        return {}

    monkeypatch.setattr(managed, "jobs", SkyPilot(answer))
    monkeypatch.setattr(managed, "get_client", lambda: nullcontext(prefect))
    monkeypatch.setattr(managed, "check_placement", known)
    monkeypatch.setattr(managed, "prices", known)
    monkeypatch.setattr(managed, "check_free", lambda *_: None)
    monkeypatch.setattr(managed, "open_store", lambda _: SimpleNamespace(url="s3://b/runs"))
    monkeypatch.setattr(managed, "managed_task", lambda *_: None)
    monkeypatch.setattr(managed, "get_run_logger", lambda: logging.getLogger(__name__))
    nobody: Any = None
    with pytest.raises(ClusterError, match="was restarted"):
        await managed.launch_job.fn(CONFIG, nobody)
    assert prefect.cancelled == dropped


async def test_a_job_that_no_machine_takes_is_not_launched(monkeypatch: pytest.MonkeyPatch) -> None:
    """SkyPilot's queue takes it, where it fails, and its flow run would stay Pending."""

    async def refuse(_: Any) -> None:
        raise NoCapacity("Spot instances are not supported in Slurm.")

    monkeypatch.setattr(managed, "jobs", SkyPilot(None))
    monkeypatch.setattr(managed, "check_placement", refuse)
    monkeypatch.setattr(managed, "check_free", lambda *_: None)
    monkeypatch.setattr(managed, "open_store", lambda _: SimpleNamespace(url="s3://b/runs"))
    nobody: Any = None
    with pytest.raises(NoCapacity):
        await managed.launch_job.fn(CONFIG, nobody)
