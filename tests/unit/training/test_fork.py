"""A run that begins with another run's checkpoint."""

from pathlib import Path

import pytest

from precis.config import FromCheckpoint, TrainConfig
from precis.environments.python import load_python
from precis.errors import CorruptCheckpoint
from precis.records.ledger import Ledger, find_ledger, load_ledger, write_ledger
from precis.records.spend import Spend
from precis.runs.checkpoints import commit, committed_steps, restore
from precis.runs.lease import lease_key, leased
from precis.store import FolderStore
from precis.training.fork import begin_from_origin, fork, origin_of
from precis.training.run import Run
from tests.support import echoing
from tests.support.dying_store import kill_at_each_write
from tests.support.ledgers import record, stored_ledger
from tests.support.runs import file_key, make_run


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    store = FolderStore(tmp_path / "store")
    make_run(store, "m", 3)
    return store


def test_no_step_means_the_newest_whole_one_and_a_named_one_itself(store: FolderStore) -> None:
    assert origin_of(store, FromCheckpoint(model="m")).step == 3
    store.delete(file_key(store, "m", 3, "weights"))
    assert origin_of(store, FromCheckpoint(model="m")).step == 2
    assert origin_of(store, FromCheckpoint(model="m", step=1)).step == 1


def test_an_origin_that_is_damaged_or_was_replaced_since_is_not_copied(store: FolderStore) -> None:
    origin = origin_of(store, FromCheckpoint(model="m", step=2))
    with pytest.raises(CorruptCheckpoint, match="was replaced since 'forked' was begun"):
        fork(store, "forked", origin.model_copy(update={"files": "others"}), "c")
    store.put(file_key(store, "m", 2, "weights"), b"\x09" * 1000)
    with pytest.raises(CorruptCheckpoint, match="differs from its manifest"):
        fork(store, "forked", origin, "c")
    assert committed_steps(store, "forked") == []


NOTHING = Spend()


class Beginning(Run):
    """A run that has come as far as its ledger."""

    def __init__(
        self, store: FolderStore, wanted: FromCheckpoint | None, corpus: str = "k"
    ) -> None:
        self.config = TrainConfig(model="forked", from_checkpoint=wanted)
        self.store, self.identity = store, "c"
        self.environment = load_python(str(echoing.__file__))
        found = find_ledger(store, "forked")
        self.ledger = found[0] if found else Ledger(model="forked", config="c", corpus=corpus)
        self._ledger_version = found[1].version if found else None

    async def write_ledger(self, ledger: Ledger, spend: Spend = NOTHING) -> None:
        self._ledger_version = write_ledger(self.store, ledger, self._ledger_version)
        self.ledger = ledger


async def begin(store: FolderStore, wanted: FromCheckpoint | None, corpus: str = "k") -> Ledger:
    run = Beginning(store, wanted, corpus)
    async with leased(store, "forked", "test", take_over=True) as run.lease:
        await begin_from_origin(run)
    return run.ledger


async def test_a_run_cut_off_at_first_begins_the_same(store: FolderStore, tmp_path: Path) -> None:
    restore(store, "m", 0, newer := tmp_path / "newer")
    newest = FromCheckpoint(model="m")
    begun_with = []
    async for cut_off in kill_at_each_write(store, tmp_path, lambda its: begin(its, newest)):
        commit(cut_off, "m", 4, newer, "c")
        ledger, version = stored_ledger(cut_off)
        write_ledger(cut_off, ledger.advance(record(3)), version)
        ledger = await begin(cut_off, newest)
        assert ledger.origin is not None
        assert origin_of(cut_off, FromCheckpoint(model="forked")).files == ledger.origin.files
        begun_with.append(ledger.origin.step)
    # Before the ledger is written nothing is decided; then come a file, manifest and pointer.
    assert begun_with == [4, 3, 3, 3, 3]


async def test_a_run_that_has_begun_or_begins_untrained_is_left_alone(store: FolderStore) -> None:
    ledger = await begin(store, None)
    assert ledger.origin is None and store.keys("forked/") == [lease_key("forked")]
    make_run(store, "forked", 1)
    before = store.sizes("forked/checkpoints/")
    await begin(store, FromCheckpoint(model="m"))
    assert store.sizes("forked/checkpoints/") == before
    assert load_ledger(store, "forked").origin is None


async def test_other_documents_than_the_origins_are_warned_of(
    store: FolderStore, caplog: pytest.LogCaptureFixture
) -> None:
    await begin(store, FromCheckpoint(model="m"), corpus="others")
    assert "on other scenarios or another split: some that are held out here" in caplog.text
