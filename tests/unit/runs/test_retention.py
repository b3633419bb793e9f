"""Retention: what goes is old, not among the best, and made unnecessary by what stays."""

import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precis.config import Retention
from precis.runs.checkpoints import commit, committed_steps, complete_around
from precis.runs.overview import kept_checkpoints
from precis.runs.retention import kept, prune
from precis.store import Blob, FolderStore
from tests.support.dying_store import Killed, MortalStore
from tests.support.ledgers import ledger_at
from tests.support.runs import file_key, newest_whole

steps = st.sets(st.integers(0, 60), min_size=1, max_size=25)
policies = st.builds(
    Retention,
    keep_last=st.integers(1, 6),
    keep_every=st.integers(0, 12),
    keep_best=st.integers(0, 4),
)
accuracies = st.dictionaries(st.integers(0, 60), st.floats(0, 1), max_size=25)


@given(steps=steps, policy=policies, accuracies=accuracies)
def test_what_each_rule_names_stays_and_nothing_else(
    steps: set[int], policy: Retention, accuracies: dict[int, float]
) -> None:
    keep = kept(steps, policy, accuracies)
    ascending = sorted(steps)
    assert keep <= steps
    assert {ascending[0], *ascending[-policy.keep_last :]} <= keep
    for gone in steps - keep:
        better = [one for one in keep if accuracies.get(one, -1) >= accuracies.get(gone, 2)]
        assert not policy.keep_every or gone % policy.keep_every
        assert gone not in accuracies or len(better) >= policy.keep_best
    most = 1 + policy.keep_last + policy.keep_best
    every = [one for one in steps if policy.keep_every and one % policy.keep_every == 0]
    assert len(keep) <= most + len(every)


@pytest.fixture
def store(store: FolderStore, tmp_path: Path) -> FolderStore:
    for step in range(8):
        folder = tmp_path / str(step)
        folder.mkdir()
        (folder / "weights").write_bytes(bytes([step]) * 100)
        commit(store, "m", step, folder, "c")
    return store


_FEW = Retention(keep_last=2, keep_every=0, keep_best=1)


def test_a_prune_keeps_first_newest_best_and_what_is_ahead(store: FolderStore) -> None:
    assert prune(store, ledger_at(5, {2: 0.9}), _FEW) == [1, 3]
    assert committed_steps(store, "m") == [0, 2, 4, 5, 6, 7]
    assert prune(store, ledger_at(7, {2: 0.9, 4: 0.5}), _FEW) == [4, 5]
    assert committed_steps(store, "m") == [0, 2, 6, 7]
    assert store.keys("m/checkpoints/0003/") == []


class PairedReads(FolderStore):
    """It reads no object until another is asked for."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._pair = threading.Barrier(2)

    def get(self, key: str) -> Blob | None:
        self._pair.wait(30)
        return super().get(key)


def test_manifests_are_read_at_once(store: FolderStore) -> None:
    """Each waits for a bucket."""
    listed = kept_checkpoints(PairedReads(store.root), "m")
    assert [one.step for one in listed if not one.damage] == list(range(8))
    assert prune(PairedReads(store.root), ledger_at(7), Retention(keep_last=8)) == []


def test_broken_checkpoints_make_no_older_one_unnecessary(store: FolderStore) -> None:
    for step in (5, 6, 7):
        store.delete(file_key(store, "m", step, "weights"))
    assert prune(store, ledger_at(7), _FEW) == [1, 2]
    newest = newest_whole(store, "m")
    assert newest is not None and newest.step == 4


@pytest.mark.parametrize("deletions", range(10))
def test_a_killed_prune_is_finished_by_the_next(store: FolderStore, deletions: int) -> None:
    with pytest.raises(Killed):
        prune(MortalStore(store.root, deletions), ledger_at(7), _FEW)
    left = complete_around(store, "m", 0)
    assert sorted(left) == committed_steps(store, "m")
    assert {0, 6, 7} <= set(left)
    prune(store, ledger_at(7), _FEW)
    assert sorted(complete_around(store, "m", 0)) == [0, 6, 7]
    assert {key.split("/")[2] for key in store.keys("m/checkpoints/")} == {"0000", "0006", "0007"}
