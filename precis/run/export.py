"""A run's records as files that any tool reads."""

from pathlib import Path
from typing import Literal

import polars as pl

from precis.errors import StoreError
from precis.records.ledger import ledger_key, load_ledger
from precis.records.manifests import manifest_key
from precis.records.metrics import metrics_frame
from precis.records.rollout import Split
from precis.records.trajectories import scan_trajectories
from precis.run.checkpoints import committed_steps, restore
from precis.store import Store

Format = Literal["parquet", "csv"]

_NESTED = ("details", "messages", "others")
AS_TEXT = pl.col(pl.String).str.replace(r"^([\s\x00]*[=+\-@＝＋－＠]|[\t\r\n])", "'${1}")
"""All text, with an apostrophe before what a spreadsheet would take for a formula."""


def export(
    store: Store,
    model: str,
    folder: Path,
    file_format: Format = "parquet",
    checkpoint: int | None = None,
) -> list[Path]:
    """Write a run's metrics, trajectories, ledger and manifests to a folder; return the files.

    Records beyond the ledger are left out. CSV has no place for details and whole messages. A named
    checkpoint is copied into `checkpoints/`, verified; a damaged one raises CorruptCheckpoint.
    """
    ledger = load_ledger(store, model)
    folder.mkdir(parents=True, exist_ok=True)
    # Step k samples from adapter k; the newest adapter was validated, but not sampled from.
    ends: dict[Split, int] = {"train": ledger.next_step, "validation": ledger.next_step + 1}
    frames = []
    for split, end in ends.items():
        frame = scan_trajectories(store, model, split, range(end))
        frames.append(frame.select(pl.lit(split).alias("split"), pl.all()))
    # Each split has its own metrics.
    trajectories = pl.concat(frames, how="diagonal")
    files = [
        _write_table(metrics_frame(ledger).lazy(), folder / f"metrics.{file_format}"),
        _write_table(trajectories, folder / f"trajectories.{file_format}"),
        _download(store, ledger_key(model), folder / "ledger.json"),
    ]
    for step in committed_steps(store, model):
        if step <= ledger.next_step:
            target = folder / "manifests" / f"{step:04d}.json"
            files.append(_download(store, manifest_key(model, step), target))
    if checkpoint is not None:
        into = folder / "checkpoints" / f"{checkpoint:04d}"
        digest = ledger.checkpoints.get(checkpoint, "")
        restored = restore(store, model, checkpoint, into, digest)
        for file in restored.files:
            files.append(into / file.path)
    return files


def _write_table(frame: pl.LazyFrame, path: Path) -> Path:
    try:
        if path.suffix == ".csv":
            frame.drop(_NESTED, strict=False).with_columns(AS_TEXT).sink_csv(path)
        else:
            frame.sink_parquet(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        remedy = "Free some space, or choose another folder."
        raise StoreError(f"Can't write {path}: {error}.", remedy) from error
    return path


def _download(store: Store, key: str, path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    store.download(key, path)
    return path
