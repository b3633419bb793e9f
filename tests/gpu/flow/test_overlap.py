"""A run on two GPUs samples on one while it trains on the other, and survives its trainer's death.

Needs two GPUs, both environments, and a model whose template knows tools (`PRECIS_GPU_MODEL`): it
plays games after a warm start on legal calls, so that any model earns something. See
`tests/gpu/README.md`.
"""

import os
import subprocess
from pathlib import Path

import pytest

from precis.config import TrainConfig
from precis.records.trajectories import scan_trajectories
from precis.store import open_store
from tests.gpu.flow.test_survival import (
    kill,
    ledger_of,
    of_games,
    steps_done,
    training,
    trainings,
    wait_until,
)

STEPS = 6
_PATIENCE_S = 400
_CORRELATED = 0.95
"""Of each token's probability now with that at its sampling, one step of training before."""


def count_gpus() -> int:
    try:
        listing = subprocess.check_output(["nvidia-smi", "-L"], text=True)
    except OSError:
        return 0
    return len(listing.splitlines())


pytestmark = pytest.mark.skipif(
    not os.environ.get("PRECIS_GPU_MODEL") or count_gpus() < 2,
    reason="PRECIS_GPU_MODEL names no model to train, or there are no two GPUs",
)


def test_a_run_samples_while_it_trains_and_survives_its_trainer(tmp_path: Path) -> None:
    config = overlapping(of_games(tmp_path))
    with training(config, tmp_path) as flow:
        wait_until(lambda: steps_done(config) >= 2)
        wait_until(lambda: bool(list(tmp_path.rglob("pending.json"))))
        kill(flow, "precis.trainer.server")  # while it trains, and samples the next step
        assert flow.wait(_PATIENCE_S) == 0, (tmp_path / "flow.log").read_text()[-3000:]

    steps = ledger_of(config).steps
    # Step 0 is the warm start, and nothing is sampled from the adapter before it.
    assert [step.staleness for step in steps] == [0, 0, 1, 1, 1, 1]
    assert adapters(config) == [{f"survivor@{max(1, step - 1)}"} for step in range(1, STEPS)]
    trained = [entry for entry in trainings(tmp_path) if entry["event"] == "trained"]
    assert [entry["digest"] for entry in trained] == [step.digest for step in steps]
    # The first two, and the one after the kill, were sampled in their turn.
    assert sum(step.overlapped_s > 0 for step in steps) >= STEPS - 3
    for step in steps[1:]:
        print(f"step {step.step}: {step.seconds}, overlapped {step.overlapped_s:.2f} s", flush=True)
        print(f"  {step.trainer}", flush=True)
    assert all(step.trainer["loss/probs_corr"] > _CORRELATED for step in steps[1:])


def overlapping(config: TrainConfig) -> TrainConfig:
    """The run on two GPUs, which samples while it trains."""
    settings = config.model_dump(exclude_unset=True)
    settings["off_policy_steps"] = 1
    settings["steps"] = STEPS
    settings["trainer"]["engine"]["gpus"] = 2
    return TrainConfig.model_validate(settings)


def adapters(config: TrainConfig) -> list[set[str]]:
    """The adapters that played the games of each step after the warm start."""
    store = open_store(config.store)
    found = []
    for step in range(1, STEPS):
        rollouts = scan_trajectories(store, config.model, "train", [step]).collect()
        found.append(set(rollouts["policy"]))
    return found
