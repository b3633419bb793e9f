"""What a run tells of itself: ART's files always, W&B and the observers while it trains."""

import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from precis.training.loop import TrainingLoop
from precis.training.run import PROJECT
from tests.support.in_process import Life, one_process
from tests.support.local_server import serving


@pytest.fixture(autouse=True)
def process(home: Path) -> Iterator[None]:
    with one_process(home):
        yield


@pytest.fixture
async def told(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[Any]]:
    """What OpenPipe is told of completions."""
    reports: list[Any] = []

    async def take(request: Request) -> Response:
        reports.append(await request.json())
        return JSONResponse({})

    monkeypatch.setenv("OPENPIPE_API_KEY", "opk-key")
    app = Starlette(routes=[Route("/{path:path}", take, methods=["POST"])])
    async with serving(app) as url:
        monkeypatch.setenv("OPENPIPE_BASE_URL", url)
        yield reports


async def test_steps_and_validations_stand_in_arts_files_without_any_key(tmp_path: Path) -> None:
    life = Life(tmp_path / "run", {})
    async with life.opened() as run:
        loop = TrainingLoop(run)
        await loop.resume()
        await loop.train()
        assert "W&B" not in run.view.links, "nobody has a page without a key"
    assert not (life.work / "wandb").exists()
    history = life.work / "art" / PROJECT / "models" / "m" / "history.jsonl"
    lines = [json.loads(line) for line in history.read_text().splitlines()]
    assert [one["step"] for one in lines if "train/reward" in one] == [0, 1]
    assert [one["step"] for one in lines if "val/accuracy" in one] == [0, 1, 2]


async def test_the_observers_hear_of_every_rollout(told: list[Any], tmp_path: Path) -> None:
    await Life(tmp_path / "run", {}).live()
    notes = [report["metadata"] for report in told]
    heard = Counter((one["split"], one["step"]) for one in notes)
    assert [heard["validation", step] for step in "012"] == [2, 2, 2]
    assert min(heard["train", "0"], heard["train", "1"]) >= 2 * 3
    assert all("score.reward" in one for one in notes)
