"""A process that lost its lease and does not know it yet: whatever it still writes, nothing of the
run that took over is altered or deleted."""

import json
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from precis.config import Retention
from precis.errors import CorruptCheckpoint, LeaseLost, StoreConflict
from precis.records.ledger import load_ledger
from precis.records.manifests import pointer_key
from precis.runs.checkpoints import (
    commit,
    committed_steps,
    complete_around,
    manifest,
    repair_pointer,
    restore,
)
from precis.runs.lease import check_lease, lease_key, read_lease, this_process
from precis.runs.restart import restart
from precis.runs.retention import prune
from precis.store import Blob, FolderStore
from precis.trainer.protocol import TrainerState
from precis.training.resume import reconcile
from tests.services.patience import patience_s
from tests.support.ledgers import ledger_at, record
from tests.support.runs import make_run

NOW = datetime.now(UTC)
FEW = Retention(keep_last=1, keep_every=0, keep_best=0)


class PausingStore(FolderStore):
    """Stops before its n-th request until it may go on, as a process does that is suspended."""

    def __init__(self, root: Path, stops_before: int) -> None:
        super().__init__(root)
        self.requests = 0
        self.has_stopped = threading.Event()
        self.may_go_on = threading.Event()
        self._stops_before = stops_before

    def get(self, key: str) -> Blob | None:
        self._request()
        return super().get(key)

    def put_if(self, key: str, data: bytes, version: str | None) -> str:
        self._request()
        return FolderStore(self.root).put_if(key, data, version)

    def upload(self, path: Path, key: str) -> None:
        self._request()
        super().upload(path, key)

    def sizes(self, prefix: str) -> dict[str, int]:
        self._request()
        return super().sizes(prefix)

    def delete(self, prefix: str) -> None:
        self._request()
        FolderStore(self.root).delete(prefix)

    def delete_keys(self, keys: Sequence[str]) -> None:
        self._request()
        super().delete_keys(keys)

    def _request(self) -> None:
        if self.requests == self._stops_before:
            self.has_stopped.set()
            assert self.may_go_on.wait(patience_s())
        self.requests += 1


class Writer(threading.Thread):
    """Somebody who does something with a store, and has stopped in the middle of it."""

    def __init__(self, store: PausingStore, work: Callable[[PausingStore], object]) -> None:
        super().__init__(daemon=True)
        self.store = store
        self.error: Exception | None = None
        self._work = work
        self.start()
        assert self.store.has_stopped.wait(patience_s())

    def run(self) -> None:
        try:
            self._work(self.store)
        except Exception as error:
            self.error = error
        finally:
            self.store.has_stopped.set()

    def run_to_its_end(self) -> None:
        self.store.may_go_on.set()
        self.join(patience_s())
        assert not self.is_alive()


def take_lease(store: FolderStore, run: str) -> str:
    """Hold the model's lease, whoever held it before; the lease's id."""
    holder = this_process(run, NOW, timedelta(minutes=1))
    present = store.get(lease_key("m"))
    version = present.version if present else None
    store.put_if(lease_key("m"), holder.model_dump_json().encode(), version)
    return holder.id


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    store = FolderStore(tmp_path / "store")
    make_run(store, "m", 2)
    return store


def weights(tmp_path: Path, content: bytes) -> Path:
    folder = tmp_path / content.decode()
    folder.mkdir(exist_ok=True)
    (folder / "weights").write_bytes(content)
    (folder / "config").write_bytes(b"{}")
    return folder


def commits(folder: Path, lease: str) -> Callable[[FolderStore], object]:
    return lambda store: commit(store, "m", 3, folder, "c", record(2), "first", lease)


REQUESTS = 10
"""More than a commit makes: the last writers do not stop at all."""


@pytest.mark.parametrize("stops", range(REQUESTS))
def test_a_stale_writer_harms_no_checkpoint(store: FolderStore, tmp_path: Path, stops: int) -> None:
    ours, theirs = weights(tmp_path, b"ours"), weights(tmp_path, b"stale")
    for stops_too in range(REQUESTS):
        root = tmp_path / f"store-{stops_too}"
        copy = FolderStore(root)
        for key in store.keys(""):
            copy.upload(store.root / key, key)
        stale = Writer(PausingStore(root, stops), commits(theirs, take_lease(copy, "stale")))
        lease = take_lease(copy, "owner")
        owner = Writer(PausingStore(root, stops_too), commits(ours, lease))
        stale.run_to_its_end()
        owner.run_to_its_end()
        assert stale.error is None or isinstance(stale.error, StoreConflict)
        assert owner.error is None or type(owner.error) is StoreConflict
        if owner.error:  # it met what the stale one wrote just before; nothing of its own is lost
            commits(ours, lease)(copy)
        found = restore(copy, "m", 3, tmp_path / "restored")
        assert found == manifest(copy, "m", 3)
        assert (tmp_path / "restored" / "weights").read_bytes() == b"ours"
        pointer = copy.get(pointer_key("m"))
        assert pointer is not None and json.loads(pointer.data) == {"step": 3}


def test_a_late_writer_is_told_whose_the_model_is(store: FolderStore, tmp_path: Path) -> None:
    stale = take_lease(store, "stale")
    take_lease(store, "owner")
    before = store.sizes("m/")
    with pytest.raises(LeaseLost, match="was taken over by the run owner"):
        commits(weights(tmp_path, b"stale"), stale)(store)
    with pytest.raises(LeaseLost):
        prune(store, ledger_at(2), FEW, stale)
    with pytest.raises(LeaseLost):
        repair_pointer(store, "m", 1, stale)
    after = store.sizes("m/")
    added = set(after) - set(before)
    assert {key: after[key] for key in before} == before
    assert added and all(key.startswith("m/checkpoints/0003/") for key in added)
    assert committed_steps(store, "m") == [0, 1, 2]


@pytest.mark.parametrize("stops", range(8))
def test_a_stale_retention_deletes_nothing_once_it_goes_on(store: FolderStore, stops: int) -> None:
    """But for the one request that it had already decided on."""
    lease = take_lease(store, "stale")
    stale = Writer(
        PausingStore(store.root, stops), lambda paused: prune(paused, ledger_at(2), FEW, lease)
    )
    ends_itself = not stale.is_alive()
    left = committed_steps(store, "m")
    take_lease(store, "owner")
    stale.run_to_its_end()
    if not ends_itself and 1 in left:
        assert set(left) - set(committed_steps(store, "m")) <= {1}
    assert {0, 2} <= set(committed_steps(store, "m"))


async def test_a_restart_that_lost_its_lease_alters_nothing(store: FolderStore) -> None:
    class TakenOver(FolderStore):
        """Its model is taken over, and its ledger written, while a checkpoint is verified."""

        def download(self, key: str, path: Path) -> None:
            super().download(key, path)
            take_lease(store, "owner")

    before = {key: (store.root / key).read_bytes() for key in store.keys("m/")}
    with pytest.raises(LeaseLost):
        await restart(TakenOver(store.root), "m", 1)
    after = {key: (store.root / key).read_bytes() for key in store.keys("m/")}
    after.pop(lease_key("m"))
    assert after == before


def test_a_manifest_that_was_replaced_is_not_the_ledgers(
    store: FolderStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """By somebody who asks for no lease, such as an older version."""
    ledger = load_ledger(store, "m")
    for step in (0, 1, 2):
        found = manifest(store, "m", step)
        assert found is not None
        ledger = ledger.add_digest(step, found.digest)
    commit(store, "m", 2, weights(tmp_path, b"stale"), "c", record(1), "first")
    whole = complete_around(store, "m", 2, digests=ledger.checkpoints)
    assert sorted(whole) == [1]
    assert "0002/manifest.json was replaced after the ledger of 'm' was written" in caplog.text
    with pytest.raises(CorruptCheckpoint, match="was replaced"):
        restore(store, "m", 2, tmp_path / "into", ledger.checkpoints[2])
    plan = reconcile(ledger, whole, TrainerState())
    assert (plan.trainer, plan.ledger.next_step) == ("restore", 1)


def test_what_attempts_left_goes_with_the_retention(store: FolderStore, tmp_path: Path) -> None:
    left = f"m/checkpoints/0002/{'0' * 16}/weights"
    store.put(left, b"half")
    assert prune(store, ledger_at(2), FEW) == [1]
    assert left not in store.keys("m/")
    restore(store, "m", 2, tmp_path / "into")


def test_a_lease_has_one_name_from_its_beginning_to_its_end(store: FolderStore) -> None:
    lease = take_lease(store, "owner")
    holder = read_lease(store, "m")
    assert holder is not None
    renewed = holder.model_copy(update={"renewals": 7, "expires": NOW, "released": True})
    store.put(lease_key("m"), renewed.model_dump_json().encode())
    check_lease(store, "m", lease)
    later = renewed.model_copy(update={"since": NOW + timedelta(microseconds=1)})
    store.put(lease_key("m"), later.model_dump_json().encode())
    with pytest.raises(LeaseLost):
        check_lease(store, "m", lease)
