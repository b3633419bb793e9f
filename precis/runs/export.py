"""A run's records as files that any tool reads."""

from pathlib import Path

import polars as pl

from precis.errors import StoreError
from precis.records.ledger import ledger_key, load_ledger
from precis.records.metrics import metrics_frame
from precis.records.rollout import Split
from precis.records.trajectories import scan_trajectories
from precis.store import Store


def export(store: Store, model: str, folder: Path) -> list[Path]:
    """Write a run's metrics, trajectories and ledger to a folder; return the files. Records beyond
    the ledger are left out."""
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
    copy = folder / "ledger.json"
    store.download(ledger_key(model), copy)
    return [
        copy,
        _write_table(metrics_frame(ledger).lazy(), folder / "metrics.parquet"),
        _write_table(trajectories, folder / "trajectories.parquet"),
    ]


def _write_table(frame: pl.LazyFrame, path: Path) -> Path:
    try:
        frame.sink_parquet(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        remedy = "Free some space, or choose another folder."
        raise StoreError(f"Can't write {path}: {error}.", remedy) from error
    return path
