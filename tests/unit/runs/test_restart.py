"""Going back to an earlier step: whenever it is cut off, a run is left that goes on."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from precis.environments.trajectories import put_trajectories
from precis.errors import ConfigError, CorruptCheckpoint, LeaseHeld, StoreError
from precis.records.ledger import ledger_key, load_ledger
from precis.records.trajectories import trajectory_steps
from precis.runs.checkpoints import complete_around
from precis.runs.lease import lease_key
from precis.runs.restart import restart
from precis.store import FolderStore
from precis.trainer.protocol import TrainedStep, TrainerState
from precis.training.resume import reconcile
from tests.support.dying_store import kill_at_each_write
from tests.support.runs import file_key, hold, make_run

STEPS, BACK = 4, 1


@pytest.fixture
def store(store: FolderStore) -> FolderStore:
    make_run(store, "m", STEPS)
    put_trajectories(store, "m", "validation", BACK, [], "m")
    put_trajectories(store, "m", "validation", BACK + 1, [], "m")
    return store


def contents(store: FolderStore) -> Mapping[str, bytes]:
    """All that is in the store but for the lease, and the id that a restart draws."""
    keys = (key for key in store.keys("") if key != lease_key("m"))
    found = {key: (store.root / key).read_bytes() for key in keys}
    drawn = load_ledger(store, "m").run_id.encode()
    return {**found, ledger_key("m"): found[ledger_key("m")].replace(drawn, b"drawn")}


async def test_a_killed_restart_leaves_a_usable_run(store: FolderStore, tmp_path: Path) -> None:
    old = load_ledger(store, "m")
    whole = complete_around(store, "m", 0)
    done = TrainedStep(digest="d", result={"metrics": {}}, note={})
    lost = TrainerState(run="", checkpoints={}, trained={})
    kept = TrainerState(
        run=old.run_id,
        checkpoints={step: whole[step].files for step in (STEPS - 1, STEPS)},
        trained=dict.fromkeys(range(STEPS), done),
    )
    undisturbed = FolderStore(shutil.copytree(store.root, tmp_path / "undisturbed"))
    await restart(undisturbed, "m", BACK)
    assert trajectory_steps(undisturbed, "m", "train") == list(range(BACK))
    assert trajectory_steps(undisturbed, "m", "validation") == [BACK]
    goes_on_at = []
    async for cut_off in kill_at_each_write(store, tmp_path, lambda its: restart(its, "m", BACK)):
        ledger = load_ledger(cut_off, "m")
        whole = complete_around(cut_off, "m", ledger.next_step)
        plans = [reconcile(ledger, whole, trainer) for trainer in (lost, kept)]
        goes_on_at.append([plan.ledger.next_step for plan in plans])
        if ledger.run_id == old.run_id:
            assert ledger == old and plans[1].trainer == "keep"
        else:
            assert all(plan.ledger == ledger and plan.trainer == "restore" for plan in plans)
        await restart(cut_off, "m", BACK)
        assert contents(cut_off) == contents(undisturbed)
    # The ledger; then the pointer, 3 manifests and their folders, and 4 files of trajectories.
    assert goes_on_at == [[STEPS, STEPS]] + [[BACK, BACK]] * 12


async def test_what_is_refused_stays_as_it_is(store: FolderStore) -> None:
    """A step that was never reached, a checkpoint that is not whole, a run at work."""
    store.put(file_key(store, "m", 2, "weights"), b"\x09" * 1000)
    store.delete("m/checkpoints/0001/manifest.json")
    before = contents(store)
    with pytest.raises(ConfigError, match=r"'m' has only come to step 4: .* Give --step"):
        await restart(store, "m", STEPS + 1)
    with pytest.raises(StoreError, match="no run 'nobody'"):
        await restart(store, "nobody", 0)
    with pytest.raises(CorruptCheckpoint, match=r"0002/\w+/weights differs"):
        await restart(store, "m", 2)
    with pytest.raises(CorruptCheckpoint, match="no checkpoint 1 of 'm'; restart at one of 0, 2"):
        await restart(store, "m", 1)
    hold(store, "m", "train-7")
    with pytest.raises(LeaseHeld, match=r"held by the run train-7 .* Stop it first"):
        await restart(store, "m", 0)
    assert store.keys("nobody/") == []
    assert contents(store) == before
