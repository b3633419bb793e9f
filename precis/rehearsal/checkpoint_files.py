"""An embedded policy's checkpoints: a folder a step, with the state of its training in
`policy.json`."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from precis.errors import CorruptCheckpoint
from precis.rehearsal.grpo import Adam
from precis.rehearsal.kind import Floats, Layout, LinearPolicy
from precis.runs.local_checkpoints import folder_of, write_checkpoint

POLICY_FILE = "policy.json"


@dataclass(frozen=True, eq=False)
class TrainingState:
    """The complete state for the next step of training; the KL penalty pulls to the reference's
    weights."""

    step: int
    policy: LinearPolicy
    reference: Floats
    adam: Adam


def initial_state(layout: Layout, seed: int) -> TrainingState:
    """Return the state of step 0, in which every candidate scores 0: sampled, its policy is
    uniform; greedy, it is a fixed random choice, since a seeded hash breaks ties."""
    weights = np.zeros(layout.size)
    return TrainingState(0, LinearPolicy(weights, seed), weights, Adam(weights, weights, 0))


def save(
    model_folder: Path,
    trained: TrainingState,
    layout: Layout,
    metrics: Mapping[str, float] | None = None,
) -> Path:
    """Write a checkpoint with its step's metrics, and return its folder; equal states give equal
    bytes."""
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
    content = json.dumps(record, indent=1 if layout.names else None) + "\n"

    def write(into: Path) -> None:
        (into / POLICY_FILE).write_text(content, encoding="utf-8")

    folder = folder_of(model_folder, trained.step)
    write_checkpoint(folder, write, metrics or {})
    return folder


def load(model_folder: Path, step: int, layout: Layout) -> TrainingState:
    """Read a checkpoint as that of step `step`, even if saved at another. Raises CorruptCheckpoint
    if it is missing, damaged, or of another kind or version of policy."""
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
