"""A run on a GPU goes on after anything of it is killed, and trains each step once.

Needs a GPU, both environments, and a model that earns some reward by summaries and whose template
knows tools (`PRECIS_GPU_MODEL`); each run takes some five minutes, most of them for the trainer's
three starts. See `tests/gpu/README.md`.
"""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from precis.config import DocumentsConfig, RolloutsConfig, TrainConfig
from precis.errors import StoreError
from precis.llm.server import ChatRequest, ToolCall
from precis.records.ledger import Ledger, load_ledger
from precis.records.manifests import checkpoint_key, manifest_key
from precis.settings.trainer import ArtTrainer, EngineConfig
from precis.store import open_store
from tests.support.examples import call, example, play
from tests.support.scripted_policy import ScriptedPolicy

MODEL = os.environ.get("PRECIS_GPU_MODEL", "")
STEPS = 4
_PATIENCE_S = 300
_GONE_S = 10
_INTO_SAMPLING_S = 0.5
"""A step's sampling takes longer than this, and begins as soon as the step before it is kept."""

pytestmark = pytest.mark.skipif(not MODEL, reason="PRECIS_GPU_MODEL names no model to train")


@pytest.mark.parametrize("of", ["summaries", "games"])
def test_a_run_survives_the_death_of_engine_and_trainer(of: str, tmp_path: Path) -> None:
    config = configuration(tmp_path) if of == "summaries" else of_games(tmp_path)
    with training(config, tmp_path) as flow:
        wait_until(lambda: steps_done(config) >= 1, flow=flow)
        time.sleep(_INTO_SAMPLING_S)
        kill(flow, "VLLM::EngineCor")  # while the next step is sampled
        wait_until(lambda: steps_done(config) >= 2, flow=flow)
        wait_until(lambda: bool(list(tmp_path.rglob("pending.json"))), flow=flow)
        kill(flow, "precis.trainer.server")  # while it trains
        assert flow.wait(_PATIENCE_S) == 0
    check_each_step_was_trained_once(config, tmp_path)


@pytest.mark.parametrize("of", ["summaries", "games"])
def test_a_run_survives_a_death_in_a_commit_and_that_of_the_flow(of: str, tmp_path: Path) -> None:
    config = configuration(tmp_path) if of == "summaries" else of_games(tmp_path)
    with training(config, tmp_path) as flow:
        wait_until(lambda: steps_done(config) >= 1, flow=flow)
        wait_until(lambda: is_committing(config, 2), flow=flow)
        kill(flow, "precis.trainer.server")  # in the middle of a commit
        wait_until(lambda: steps_done(config) >= 2, flow=flow)
        time.sleep(_INTO_SAMPLING_S)
        os.kill(flow.pid, signal.SIGKILL)
    wait_until(lambda: not holding_the_gpu(tmp_path), _GONE_S)
    with training(config, tmp_path) as flow:
        assert flow.wait(_PATIENCE_S) == 0
    check_each_step_was_trained_once(config, tmp_path)


def check_each_step_was_trained_once(config: TrainConfig, folder: Path) -> None:
    """Fails also where something of the run is left on the GPU."""
    wait_until(lambda: not holding_the_gpu(folder), _GONE_S)
    ledger = ledger_of(config)
    assert [record.step for record in ledger.steps] == list(range(STEPS))
    trained = [entry for entry in trainings(folder) if entry["event"] == "trained"]
    assert [entry["step"] for entry in trained] == list(range(STEPS))
    assert [entry["digest"] for entry in trained] == [record.digest for record in ledger.steps]


def configuration(folder: Path) -> TrainConfig:
    return TrainConfig(
        model="survivor",
        steps=STEPS,
        documents=DocumentsConfig(train_size=160, val_size=32),
        trainer=ArtTrainer(
            base_model=MODEL,
            learning_rate=1e-4,
            engine=EngineConfig(lora_rank=16, gpu_memory_share=0.2, tokens_max=3072),
        ),
        rollouts=RolloutsConfig(groups_per_step=8, rollouts_per_group=8),
        validate_every=STEPS,
        judge_patience_s=0,
        store=str(folder / "store"),
        take_over=True,
        benchmark=False,
    )


def of_games(folder: Path) -> TrainConfig:
    """Tic Tac Toe, after a warm start on legal calls: without it most groups earn nothing."""
    write_games(folder / "games.jsonl")
    config = configuration(folder)
    settings = config.model_dump(exclude_unset=True, exclude={"documents"})
    settings["trainer"] = config.trainer.model_dump()
    settings["environment"] = "examples/tic_tac_toe.py"
    settings["warm_start"] = {"source": "file", "file": str(folder / "games.jsonl")}
    return TrainConfig.model_validate(settings)


def write_games(file: Path) -> None:
    def take_any_cell(request: ChatRequest) -> ToolCall:
        free = [cell for cell in request.messages[-1]["content"] if cell.isdigit()]
        return call(request, "play", cell=int(random.choice(free)))

    player = ScriptedPolicy(take_any_cell)
    lines: list[str] = []
    for game in asyncio.run(play(example("tic_tac_toe.py"), player, 100)):
        last = game.calls[-1]
        messages = [*last.messages, last.message]
        shown = {"id": f"shown-{len(lines)}", "tools": list(last.tools), "messages": messages}
        lines.append(json.dumps(shown))
    file.write_text("\n".join(lines))


@contextmanager
def training(config: TrainConfig, folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    file = folder / "config.json"
    file.write_text(config.model_dump_json())
    environment = {**os.environ, "PRECIS_HOME": str(folder / "home")}
    with (folder / "flow.log").open("ab") as log:
        flow = subprocess.Popen(
            [sys.executable, "-m", "tests.gpu.flow.training", str(file)],
            stdout=log,
            stderr=log,
            env=environment,
        )
    try:
        yield flow
    except AssertionError:
        print((folder / "flow.log").read_text()[-8000:])
        raise
    finally:
        with suppress(ProcessLookupError):
            flow.kill()
        flow.wait()


def kill(flow: "subprocess.Popen[bytes]", name: str) -> None:
    """SIGKILL the flow's descendant that has this name, or this in its command."""
    for process in psutil.Process(flow.pid).children(recursive=True):
        command = " ".join(process.cmdline())
        if process.name() == name or (name in command and "supervisor" not in command):
            print(f"{time.strftime('%T')} kills {process.name()} ({process.pid})", flush=True)
            process.kill()
            return
    raise AssertionError(f"No process {name} is there.")


def holding_the_gpu(folder: Path) -> list[psutil.Process]:
    """The processes on the GPU that a trainer under this folder has started."""
    found = []
    for process in psutil.process_iter(["name"]):
        with suppress(psutil.Error):
            of_a_trainer = str(folder) in process.environ().get("PRECIS_TRAINER_FOLDER", "")
            if of_a_trainer and process.info["name"] in ("precis-gpu", "VLLM::EngineCor"):
                found.append(process)
    return found


def steps_done(config: TrainConfig) -> int:
    return ledger_of(config).next_step


def is_committing(config: TrainConfig, step: int) -> bool:
    """Whether some of a checkpoint's files are in the store, and its manifest is not."""
    keys = open_store(config.store).keys(checkpoint_key(config.model, step))
    return bool(keys) and manifest_key(config.model, step) not in keys


def ledger_of(config: TrainConfig) -> Ledger:
    return load_ledger(open_store(config.store), config.model)


def trainings(folder: Path) -> list[dict[str, Any]]:
    (log,) = folder.rglob("trainings.jsonl")
    return [json.loads(line) for line in log.read_text().splitlines()]


def wait_until(
    condition: Callable[[], bool],
    patience_s: float = _PATIENCE_S,
    flow: "subprocess.Popen[bytes] | None" = None,
) -> None:
    """Wait for a condition, and no longer than a flow runs."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        with suppress(StoreError, OSError):
            if condition():
                return
        assert flow is None or flow.poll() is None, "The flow ended early."
        time.sleep(0.005)  # a commit takes less than a tenth of a second
    raise AssertionError(f"Not within {patience_s} s.")
