"""The worker's end, without a worker."""

import asyncio

import pytest

from cli import worker
from precis.errors import PrecisError


async def test_what_ends_a_worker_is_a_sentence_and_no_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def end(*_: object) -> None:
        inner = ExceptionGroup("runs", [PrecisError("Left 1 of its runs killed.")])
        raise ExceptionGroup("worker", [inner])

    monkeypatch.setattr(worker, "_work", end)
    with pytest.raises(PrecisError, match="Left 1 of its runs killed"):
        await worker.work(1, 1.0, print)


async def test_a_signal_ends_a_look_for_runs_that_nobody_answers() -> None:
    shutdown = worker.WorkerShutdown()
    assert await shutdown.result_before_signal(asyncio.sleep(0, "a run")) == "a run"
    looking = asyncio.create_task(shutdown.result_before_signal(asyncio.sleep(3600, "a run")))
    await asyncio.sleep(0)
    shutdown.on_terminate()
    assert await asyncio.wait_for(looking, 60) is None
    assert shutdown.stage == worker.ShutdownStage.CANCELLING
