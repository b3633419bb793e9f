"""A service that rollouts are reported to may answer what it likes."""

from collections.abc import Callable, Iterator

import pytest
from pydantic import SecretStr

from precis.environment import Variables
from precis.observe import sender
from precis.observe.observers import observing
from tests.security.hostile import MIB, bomb, dripping, endless, hostile
from tests.support.observed import SEEN

KEY = "opk-0123456789abcdef"


@pytest.fixture(autouse=True)
def one_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "_TRIES", 1)


async def report(url: str) -> None:
    """Report one rollout to OpenPipe alone."""
    others = ("langfuse_public_key", "langfuse_secret_key", "wandb_api_key", "weave_project")
    known = {**dict.fromkeys(others), "openpipe_api_key": SecretStr(KEY), "openpipe_base_url": url}
    async with observing(Variables().model_copy(update=known)) as observers:
        observers.rollouts([SEEN])


@pytest.mark.parametrize("answer", [endless, bomb])
async def test_an_answer_without_end_is_not_read(
    answer: Callable[[str], Iterator[bytes]], caplog: pytest.LogCaptureFixture
) -> None:
    async with hostile(answer) as server:
        await report(server.url)
    assert server.keys == [KEY]
    assert server.sent < 32 * MIB
    first, last = (record.getMessage() for record in caplog.records)
    assert "The reply is larger than" in first
    assert "did not receive 1 of 1 rollouts" in last


async def test_an_answer_that_drips_costs_its_deadline(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "_DEADLINE_S", 0.5)
    async with dripping() as url:
        await report(url)
    assert "no whole answer within 0.5 s" in caplog.text
