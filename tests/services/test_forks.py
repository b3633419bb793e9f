"""Runs that begin with another run's checkpoint, and runs that are taken back."""

from pathlib import Path
from typing import Any

from precis.records.ledger import load_ledger
from precis.records.manifests import Checkpoint
from precis.records.trajectories import trajectory_steps
from precis.run.checkpoints import committed_steps, manifest
from precis.store import FolderStore
from tests.services.conftest import Precis


def settings(store: FolderStore, model: str, steps: int, **more: Any) -> dict[str, Any]:
    documents = {"source": "bundled", "train_size": 40, "val_size": 8}
    shared = {"model": model, "steps": steps, "benchmark": False, "store": store.url}
    return {**shared, "documents": documents, **more}


def checkpoint(store: FolderStore, model: str, step: int) -> Checkpoint:
    found = manifest(store, model, step)
    assert found is not None
    return found


async def test_a_run_is_taken_back_and_another_one_begun_with_it(
    precis: Precis, tmp_path: Path
) -> None:
    store = FolderStore(tmp_path / "store")
    code, output = await precis.train(settings(store, "first", 2))
    assert code == 0, output
    once, ledger = checkpoint(store, "first", 2), load_ledger(store, "first")

    origin = {"model": "first", "step": 1}
    code, output = await precis.train(settings(store, "forked", 1, from_checkpoint=origin))
    assert code == 0, output
    begun = load_ledger(store, "forked")
    assert begun.origin is not None and (begun.origin.model, begun.origin.step) == ("first", 1)
    assert checkpoint(store, "forked", 0).files == checkpoint(store, "first", 1).files
    assert committed_steps(store, "forked") == [0, 1]
    assert begun.steps[0].reward != ledger.steps[0].reward  # the same documents, a better policy

    said = precis.run("runs", "restart", "first", "--step", "1", "--yes", "--store", store.url)
    assert "first is at step 1 again" in said
    assert committed_steps(store, "first") == [0, 1]
    assert trajectory_steps(store, "first", "train") == [0]
    code, output = await precis.train(settings(store, "first", 2))
    assert code == 0, output
    assert checkpoint(store, "first", 2).files == once.files
    assert "first" in precis.run("runs", "list", "--store", store.url)
