"""A run's page: shown when there is news, and with its report at the end."""

import asyncio
import math
from dataclasses import replace

import pytest

from precis.records.ledger import Ledger
from precis.report.training_report import LatestSamples, TrainingView
from precis.runs.outlook import RunPlan
from precis.training import progress
from precis.training.progress import follow
from tests.support.ledgers import record
from tests.support.rollouts import ROLLOUTS

pytestmark = pytest.mark.usefixtures("undrawn")


def view() -> TrainingView:
    steps = tuple(map(record, range(3)))
    ledger = Ledger(model="m", config="c", corpus="d", next_step=3, steps=steps)
    return TrainingView(ledger, RunPlan(5))


@pytest.fixture(autouse=True)
def late(monkeypatch: pytest.MonkeyPatch) -> None:
    """No report is due before the end, which a busy machine has all its time for."""
    monkeypatch.setattr(progress, "_REPORT_PAUSE_S", 3600.0)
    monkeypatch.setattr(progress, "_LAST_WORD_S", 60.0)


async def test_a_page_shows_news_at_once_and_ends_with_the_report() -> None:
    shown: list[str | None] = []
    seen = asyncio.Event()

    async def publish(seen_view: TrainingView, report: str | None) -> None:
        shown.append(report)
        seen.set()

    async with follow(view, publish):
        await asyncio.wait_for(seen.wait(), 60)
        assert shown == [None]
    assert shown[:-1] == [None, None]
    assert "step 3 of 5" in (shown[-1] or "")


async def test_only_a_run_that_is_told_to_end_waits_for_no_report(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two reports may be drawn at the end, one after the other, and a busy machine draws slowly."""
    monkeypatch.setattr(progress, "_HASTY_S", 0.0)
    shown: list[str | None] = []

    async def publish(seen_view: TrainingView, report: str | None) -> None:
        shown.append(report)

    with pytest.raises(asyncio.CancelledError):
        async with follow(view, publish):
            raise asyncio.CancelledError
    assert not any(shown)
    async with follow(view, publish):
        pass
    assert shown[-1]


async def test_a_report_that_fails_does_not_end_the_run(caplog: pytest.LogCaptureFixture) -> None:
    async def publish(seen_view: TrainingView, report: str | None) -> None:
        raise ValueError("no such page")

    async with follow(view, publish):
        pass
    assert "The run's report could not be made." in caplog.text


async def test_a_long_report_does_not_keep_the_next_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_REPORT_PAUSE_S", 0.0)
    monkeypatch.setattr(progress, "_PAUSE_S", 0.0)
    monkeypatch.setattr(progress, "_REPORT_SHARE", math.inf)
    monkeypatch.setattr(progress, "_REPORT_PAUSE_MAX_S", 0.0)
    drawn = asyncio.Semaphore(0)

    async def publish(seen_view: TrainingView, report: str | None) -> None:
        if report is not None:
            drawn.release()

    async with follow(view, publish) as tell:
        for _ in range(2):
            await asyncio.wait_for(drawn.acquire(), 60)
            tell()


async def test_an_agent_that_can_not_show_its_rollouts_is_followed_all_the_same(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(progress, "_REPORT_PAUSE_S", 0.0)
    monkeypatch.setattr(progress, "_PAUSE_S", 0.0)
    seen = asyncio.Event()

    async def publish(seen_view: TrainingView, report: str | None) -> None:
        seen.set()

    def unshown() -> TrainingView:
        rollouts = LatestSamples(rollouts=tuple(ROLLOUTS[1]))
        return replace(view(), seen=rollouts, show=lambda rollout: rollout.scenario["no such key"])

    async with follow(unshown, publish) as tell:
        for _ in range(3):
            await asyncio.wait_for(seen.wait(), 60)
            seen.clear()
            tell()
    assert caplog.messages == ["The run's report could not be made."] * 2
