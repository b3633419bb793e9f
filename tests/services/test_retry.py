"""A step fails on a worker; Retry goes on with that step, and does nothing twice."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from precis.records.ledger import Ledger
from tests.services.conftest import Precis
from tests.services.patience import PATIENCE_S
from tests.services.prefect_api import async_client_of, client_of, created, states_of
from tests.services.switched_judge import SwitchedJudge

STEPS = 8


@pytest.mark.long  # as test_browser.py does from the page
async def test_retry_goes_on_at_the_step_that_failed(deployed: Precis, tmp_path: Path) -> None:
    async with SwitchedJudge("retried-judge") as judge, async_client_of(deployed.api) as api:
        run = await started(deployed, settings(tmp_path, judge))
        await until(lambda: len(ledger(tmp_path).steps) >= 2)
        judge.refuses = True
        stopped = await end_of(api, run)
        before = ledger(tmp_path)
        judge.refuses = False
        await asyncio.to_thread(deployed.prefect, "flow-run", "retry", run)
        done = await end_of(api, run, runs=2)
        tasks = await tasks_of(api, run, f"step {STEPS - 1}: log retried")
        artifacts = (await api.post("/artifacts/filter", json=of(run))).json()
    assert (stopped["state_type"], stopped["state_name"]) == ("FAILED", "Failed")
    assert "JUDGE_API_KEY" in stopped["state"]["message"]
    assert done["state_type"] == "COMPLETED", done["state"]
    assert done["name"] == f"train retried: step {STEPS} of {STEPS}"
    after = ledger(tmp_path)
    assert 2 <= len(before.steps) < len(after.steps) == STEPS
    assert after.steps[: len(before.steps)] == before.steps
    trained = Counter(one["name"] for one in tasks if ": train " in one["name"])
    assert sum(trained.values()) == STEPS, f"a step was trained twice: {trained}"
    assert Counter(one["key"] for one in artifacts) == {
        "retried-preflight": 2,  # each start has looked for itself
        "retried-progress": 1,
        "retried-training": 1,
    }


@pytest.mark.long  # tests/unit/training/test_serving.py has the states without a server
async def test_a_run_whose_trainer_is_lost_says_that_it_recovers(
    precis: Precis, tmp_path: Path
) -> None:
    config = {**settings(tmp_path), "model": "recovered"}
    training = await precis.start_training(config, log := tmp_path / "recovered.log")
    await until(lambda: len(ledger(tmp_path, "recovered").steps) >= 2)
    trainer_of(precis, "recovered").kill()
    assert await asyncio.wait_for(training.wait(), PATIENCE_S) == 0, log.read_text()
    assert len(ledger(tmp_path, "recovered").steps) == STEPS
    with client_of(precis.api) as api:
        body = {"flow_runs": {"name": {"any_": [f"train recovered: step {STEPS} of {STEPS}"]}}}
        (run,) = api.post("/flow_runs/filter", json=body).raise_for_status().json()
        states = states_of(api, run["id"])
    names = [one["name"] for one in states][-5:]
    assert names == ["Running", "Preempted", "Recovering", "Running", "Completed"]
    assert "It is brought up again (1)." in states[-3]["message"]


def settings(store: Path, judge: SwitchedJudge | None = None) -> dict[str, Any]:
    asked = {"provider": "url", "base_url": judge.url, "model": judge.model} if judge else {}
    return {
        "model": "retried",
        "steps": STEPS,
        "store": str(store),
        "documents": {"source": "bundled", "train_size": 40, "val_size": 4},
        "rollouts": {"groups_per_step": 2, "rollouts_per_group": 4},
        "judge": asked or {"provider": "lexical"},
        "validate_every": STEPS,
        "benchmark": False,
    }


def trainer_of(precis: Precis, model: str) -> psutil.Process:
    """The process that trains a model in this home, which its folder names."""
    found = [
        process
        for process in psutil.process_iter(["cmdline"])
        if "precis.trainer.server" in (command := " ".join(process.info["cmdline"] or []))
        and f"{precis.home}/work/{model}-" in command
        and "precis.processes.supervisor" not in command
    ]
    assert len(found) == 1, found
    return found[0]


def ledger(store: Path, model: str = "retried") -> Ledger:
    path = store / model / "ledger.json"
    if not path.exists():
        return Ledger(model=model, config="", corpus="")
    return Ledger.model_validate_json(path.read_text())


async def started(precis: Precis, config: dict[str, Any]) -> str:
    with client_of(precis.api) as api:
        return await asyncio.to_thread(created, api, "train/rehearsal", config)


async def end_of(api: httpx.AsyncClient, run: str, runs: int = 1) -> dict[str, Any]:
    """The run once it has ended, after so many runs of it."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        found: dict[str, Any] = (await api.get(f"/flow_runs/{run}")).raise_for_status().json()
        ended = found["state_type"] in ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")
        if ended and found["run_count"] >= runs:
            return found
        await asyncio.sleep(0.3)
    raise AssertionError(f"The run did not end: {found['state']}")


def of(run: str) -> dict[str, Any]:
    return {"flow_runs": {"id": {"any_": [run]}}}


async def tasks_of(api: httpx.AsyncClient, run: str, last: str) -> list[dict[str, Any]]:
    """A run's task runs, which the server records in the background, once the last is there."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found: list[dict[str, Any]] = (await api.post("/task_runs/filter", json=of(run))).json()
            if any(one["name"] == last for one in found):
                return found
            await asyncio.sleep(0.5)


async def until(condition: Callable[[], bool], timeout_s: float = PATIENCE_S) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.02)
