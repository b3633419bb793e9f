"""Checkpoints of an adapter on the trainer's disk, in ART's layout (`checkpoints/0007/`).

A folder with a step's name is whole: it is written under another name, and takes its own in one
move. The metrics of the training that made it are in it, so that a trainer which is killed before
it could tell them need not train the step again.
"""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from precis.store.durable import make_folder, move

METRICS_FILE = "metrics.json"


def newest_step(model_folder: Path) -> int | None:
    """Return the highest step with a checkpoint; None if there is none."""
    folders = (model_folder / "checkpoints").glob("[0-9]*")
    return max((int(folder.name) for folder in folders), default=None)


def write_checkpoint(
    folder: Path, save: Callable[[Path], object], metrics: Mapping[str, float]
) -> None:
    """Have `save` fill a new folder, and give it its name once it is whole and on the disk.

    Args:
        folder: where the checkpoint is to be; what is there is replaced.
        metrics: of the training that made it.
    """
    fresh = folder.with_name(f".{folder.name}.writing")
    shutil.rmtree(fresh, ignore_errors=True)
    make_folder(fresh)
    save(fresh)
    (fresh / METRICS_FILE).write_text(json.dumps(dict(metrics), indent=1), encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    move(fresh, folder)


def read_metrics(folder: Path) -> dict[str, float] | None:
    """Return the metrics of the training that made a checkpoint; None if there is no such
    checkpoint."""
    file = folder / METRICS_FILE
    if not file.exists():
        return None
    metrics: dict[str, float] = json.loads(file.read_text(encoding="utf-8"))
    return metrics
