"""What a run tells of itself: ART's files always, W&B and the observers while it is open."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from precis.config import TrainConfig
from precis.llm.loop_server import LoopServer
from precis.training.log import RunLog
from precis.training.run import PROJECT, trainable, work_folder
from tests.support.ledgers import EMPTY, record, validation
from tests.support.rollouts import rollouts

CONFIG = TrainConfig(model="m")


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home of its own, and no key of the shell's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PRECIS_HOME", str(tmp_path / "home"))
    for name in ("WANDB_API_KEY", "OPENPIPE_API_KEY", "LANGFUSE_PUBLIC_KEY", "WEAVE_PROJECT"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def log() -> RunLog:
    return RunLog(trainable(CONFIG))


@pytest.fixture
async def told(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[Any]]:
    """What OpenPipe is told of completions."""
    reports: list[Any] = []

    async def take(request: Request) -> Response:
        reports.append(await request.json())
        return JSONResponse({})

    server = LoopServer(Starlette(routes=[Route("/{path:path}", take, methods=["POST"])]))
    await server.start()
    monkeypatch.setenv("OPENPIPE_API_KEY", "opk-key")
    monkeypatch.setenv("OPENPIPE_BASE_URL", f"http://127.0.0.1:{server.port}")
    yield reports
    await asyncio.wait_for(server.stop(), 10)


def history() -> list[dict[str, Any]]:
    """The lines of ART's own file."""
    folder = work_folder(CONFIG) / "art" / PROJECT / "models" / "m"
    lines = (folder / "history.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


async def test_steps_and_validations_stand_in_arts_files_without_any_key(log: RunLog) -> None:
    ledger = EMPTY.advance(record(0, reward=0.25))
    await log.log_step(ledger, 0, None)
    await log.log_validation(validation(1, 0.75))
    step, validated = history()
    assert (step["step"], step["train/reward"]) == (0, 0.25)
    assert (validated["step"], validated["val/accuracy"]) == (1, 0.75)


async def test_the_observers_hear_of_samples_while_it_is_open(
    log: RunLog, told: list[Any], tmp_path: Path
) -> None:
    group = [rollouts(True, False)]
    log.tell_samples(group, "run", "train", 0, 0)
    async with log.open(CONFIG, "run", tmp_path / "wandb"):
        assert log.wandb_url == "", "nobody has a page without a key"
        log.tell_samples(group, "run", "train", 4, 3)
    assert not (tmp_path / "wandb").exists()
    assert [report["metadata"]["step"] for report in told] == ["4", "4"]
    assert {report["metadata"]["score.reward"] for report in told} == {"1", "0"}
