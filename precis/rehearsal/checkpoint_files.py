"""The files of training on disk: one folder a step, with `policy.json` and the training's metrics
in `metrics.json`. It is moved into place, so a folder with a `policy.json` is complete; anything
else in `checkpoints/` does not count."""

import json
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from precis.errors import CorruptCheckpoint
from precis.rehearsal.grpo import Adam
from precis.rehearsal.kind import Floats, Layout, LinearPolicy
from precis.store.durable import make_folder, move

POLICY_FILE = "policy.json"
_METRICS = "metrics.json"


@dataclass(frozen=True, eq=False)
class TrainingState:
    """The complete state for the next step of training; the KL penalty pulls to the reference's
    weights."""

    step: int
    policy: LinearPolicy
    reference: Floats
    adam: Adam


def initial_state(layout: Layout, seed: int) -> TrainingState:
    """Return the state of step 0, in which every candidate scores 0.

    Sampled, its policy is uniform; greedy, a seeded hash breaks ties, so it is a fixed random
    choice.
    """
    weights = np.zeros(layout.size)
    return TrainingState(0, LinearPolicy(weights, seed), weights, Adam(weights, weights, 0))


def folder_of(model_folder: Path, step: int) -> Path:
    """Return the folder of a step's checkpoint."""
    return model_folder / "checkpoints" / f"{step:04d}"


def steps(model_folder: Path) -> list[int]:
    """Return the steps of all complete checkpoints, ascending."""
    files = (model_folder / "checkpoints").glob(f"*/{POLICY_FILE}")
    names = (file.parent.name for file in files)
    return sorted(int(name) for name in names if name.isdigit())


def save(
    model_folder: Path,
    trained: TrainingState,
    layout: Layout,
    metrics: Mapping[str, float] | None = None,
) -> Path:
    """Write a checkpoint with its step's metrics, and return its folder; equal states give equal
    bytes."""
    folder = folder_of(model_folder, trained.step)
    make_folder(folder.parent)
    fresh = Path(tempfile.mkdtemp(prefix=".writing-", dir=folder.parent))
    fresh.chmod(0o755)
    adam = trained.adam
    record = {
        "policy": layout.kind,
        "features_version": layout.version,
        "step": trained.step,
        "seed": trained.policy.seed,
        "weights": layout.encode(trained.policy.weights),
        "reference": layout.encode(trained.reference),
        "adam": {
            "count": adam.count,
            "mean": layout.encode(adam.mean),
            "square": layout.encode(adam.square),
        },
    }
    # Unnamed numbers are not worth indenting, and json's C encoder does not indent.
    (fresh / POLICY_FILE).write_text(
        json.dumps(record, indent=1 if layout.names else None) + "\n", encoding="utf-8"
    )
    (fresh / _METRICS).write_text(json.dumps(dict(metrics or {}), indent=1), encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)  # left by an interrupted restore
    move(fresh, folder)
    return folder


def load(model_folder: Path, step: int, layout: Layout) -> TrainingState:
    """Read a checkpoint as that of step `step`, even if saved at another.

    Raises:
        CorruptCheckpoint: it is missing, damaged, or of another kind or version of policy.
    """
    file = folder_of(model_folder, step) / POLICY_FILE
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
        if record["policy"] != layout.kind:
            raise ValueError(f"it is a policy {record['policy']!r}, and not {layout.kind!r}")
        if record["features_version"] != layout.version:
            raise ValueError(
                f"its weights are for version {record['features_version']} of the features, and "
                f"this is version {layout.version}"
            )
        adam = record["adam"]
        mean = layout.decode(adam["mean"])
        moments = Adam(mean, layout.decode(adam["square"]), adam["count"])
        policy = LinearPolicy(layout.decode(record["weights"]), record["seed"])
        trained = TrainingState(record["step"], policy, layout.decode(record["reference"]), moments)
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise CorruptCheckpoint(
            f"{file} can't be used as a checkpoint ({error}).",
            "Remove its folder to continue from the step before, or restore it from the store.",
        ) from error
    return replace(trained, step=step)  # a run may begin from another run's checkpoint


def keep_only(model_folder: Path, kept: Iterable[int]) -> None:
    """Delete the checkpoints of all steps not in `kept`."""
    for step in set(steps(model_folder)) - set(kept):
        shutil.rmtree(folder_of(model_folder, step))
