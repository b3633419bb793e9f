"""Runs in a store with their checkpoints, and the command that shows them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from precis.environments.trajectories import put_trajectories
from precis.records.ledger import Ledger, write_ledger
from precis.records.manifests import Checkpoint, File
from precis.rehearsal import checkpoint_files
from precis.rehearsal.extractive.kind import SENTENCES
from precis.runs.checkpoints import commit, complete_around, manifest
from precis.runs.lease import lease_key, this_process
from precis.store import FolderStore, Store
from tests.support.command import run_precis
from tests.support.ledgers import record, validation
from tests.support.rollouts import ROLLOUTS

NOW = datetime.now(UTC)


def make_run(store: Store, model: str, steps: int) -> Ledger:
    """A run in the store, with a checkpoint for each adapter; it cost 25 cents a step."""
    ledger = Ledger(model=model, config="c", corpus="k", run_id="first").add_validation(
        validation(0, 0.25)
    )
    with TemporaryDirectory() as temporary:
        for step in range(steps + 1):
            (Path(temporary) / "weights").write_bytes(bytes([step]) * 1000)
            made_by = record(step - 1) if step else None
            commit(store, model, step, Path(temporary), "c", made_by, "first")
    for step in range(steps):
        ledger = ledger.advance(record(step)).add_validation(validation(step + 1, 0.5))
        put_trajectories(store, model, "train", step, ROLLOUTS, "m")
    write_ledger(store, ledger, None)
    return ledger


def hold(store: Store, model: str, run: str) -> None:
    holder = this_process(run, NOW, timedelta(minutes=1))
    store.put(lease_key(model), holder.model_dump_json().encode())


def precis_runs(*arguments: object, store: Store, **options: Any) -> str:
    """What the command prints; errors too, and no traceback."""
    return run_precis("runs", *arguments, store=store, **options).output


def train_policy(store: FolderStore, name: str, folder: Path, steps: int = 2) -> None:
    """A run of the embedded policy in the store, whose best step is its first."""
    ledger = Ledger(model=name, config="c", corpus="k")
    for step in range(steps + 1):
        trained = checkpoint_files.initial_state(SENTENCES.layout, step)
        saved = checkpoint_files.save(folder, trained, SENTENCES.layout)
        commit(store, name, step, saved, "c")
    for step in range(steps):
        ledger = ledger.advance(record(step)).add_validation(validation(step, 0.5 - step / 10))
    write_ledger(store, ledger, None)


def newest_whole(store: Store, model: str, at_most: int = 9999) -> Checkpoint | None:
    """The newest whole checkpoint up to a step; None if none is whole."""
    found = complete_around(store, model, at_most)
    return next((found[step] for step in sorted(found, reverse=True) if step <= at_most), None)


def file_key(store: Store, model: str, step: int, path: str) -> str:
    """Where the store keeps a file of a committed checkpoint."""
    checkpoint = manifest(store, model, step)
    assert checkpoint is not None
    return checkpoint.key_of(File(path=path, bytes=0, sha256="0" * 64))
