"""The worker's end, without a worker."""

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
