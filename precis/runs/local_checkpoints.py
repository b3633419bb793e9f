"""Checkpoints on a trainer's disk, in ART's layout: `checkpoints/0007/` in a model's folder.

A folder with a step's name is whole: it is written under another name, takes its own in one move,
and gives it up in one before it is deleted. The metrics of the training that made it are in it, so
that a trainer which is killed before it could tell them need not train the step again.
"""

import json
import os
import shutil
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from precis.store.durable import make_folder, move

_METRICS_FILE = "metrics.json"


def folder_of(model_folder: Path, step: int) -> Path:
    return model_folder / "checkpoints" / f"{step:04d}"


def steps_here(model_folder: Path) -> list[int]:
    """Return the steps with a checkpoint, ascending."""
    steps = []
    for folder in (model_folder / "checkpoints").glob("*"):
        if folder.name.isdecimal():
            steps.append(int(folder.name))
    return sorted(steps)


def write_checkpoint(
    folder: Path, save: Callable[[Path], object], metrics: Mapping[str, float]
) -> None:
    """Have `save` fill a new folder, and give it its name once it is whole and on the disk; an
    existing checkpoint is replaced. `metrics` are of the training that made it."""
    fresh = folder.with_name(f".{folder.name}.writing")
    shutil.rmtree(fresh, ignore_errors=True)
    make_folder(fresh)
    save(fresh)
    (fresh / _METRICS_FILE).write_text(json.dumps(dict(metrics), indent=1), encoding="utf-8")
    if folder.exists():
        _delete(folder)
    move(fresh, folder)


def read_metrics(folder: Path) -> dict[str, float] | None:
    """Return the metrics of the training that made a checkpoint; None if there is no such
    checkpoint."""
    file = folder / _METRICS_FILE
    if not file.exists():
        return None
    metrics: dict[str, float] = json.loads(file.read_text(encoding="utf-8"))
    return metrics


def keep_only(model_folder: Path, kept: Collection[int]) -> None:
    """Delete the checkpoints of all steps not in `kept`."""
    for step in steps_here(model_folder):
        if step not in kept:
            _delete(folder_of(model_folder, step))


def _delete(folder: Path) -> None:
    """Delete a checkpoint, its name first: after a kill half of one must not pass for whole."""
    unnamed = folder.with_name(f".{folder.name}.deleting")
    shutil.rmtree(unnamed, ignore_errors=True)
    os.replace(folder, unnamed)
    shutil.rmtree(unnamed)
