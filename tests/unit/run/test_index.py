"""The index of a store's runs: it never says anything else than the ledgers and leases do."""

import asyncio
import threading
from pathlib import Path

import pytest

from precis.errors import LeaseLost, StoreError
from precis.records.ledger import Ledger, find_ledger, ledger_key, write_ledger
from precis.run.index import INDEX_KEY, add_line, listed, read_index, remove_line
from precis.run.lease import leased
from precis.run.overview import list_runs
from precis.run.restart import restart
from precis.store import Blob, FolderStore
from precis.training.deletion import delete
from tests.support.ledgers import record, validation
from tests.support.runs import NOW, make_run, precis_runs


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path / "store")


async def finish_run(store: FolderStore, model: str, steps: int = 1) -> None:
    async with leased(store, model, "train"):
        make_run(store, model, steps)


async def test_a_run_that_is_over_is_listed_as_it_is_read(store: FolderStore) -> None:
    make_run(store, "old", 2)
    before, _ = list_runs(store, NOW)
    async with leased(store, "old", "train"):
        pass
    assert list(read_index(store).values()) == before
    assert list_runs(store, NOW) == (before, [])
    assert precis_runs("list", store=store).splitlines()[1].split()[:2] == ["old", "2"]


async def test_of_a_run_in_the_index_nothing_else_is_read(store: FolderStore) -> None:
    class Reading(FolderStore):
        def get(self, key: str) -> Blob | None:
            read.append(key)
            return super().get(key)

    read: list[str] = []
    for model in ("a", "b"):
        await finish_run(store, model)
    runs, _ = list_runs(Reading(store.root), NOW)
    assert (len(runs), read) == (2, [INDEX_KEY])


async def test_a_run_at_work_is_read_from_its_ledger_and_lease(store: FolderStore) -> None:
    await finish_run(store, "m", 1)
    async with leased(store, "m", "train-2"):
        assert "m" not in read_index(store)
        found = find_ledger(store, "m")
        assert found is not None
        blob = store.get(ledger_key("m"))
        assert blob is not None
        write_ledger(store, found[0].advance(record(1)), blob.version)
        (run,), _ = list_runs(store, NOW)
        assert (run.step, run.held_by) == (2, "train-2")
    (run,), _ = list_runs(store, NOW)
    assert (run.step, run.held_by) == (2, None)


async def test_a_restart_a_deletion_and_a_folder_that_is_gone_are_told(
    store: FolderStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRECIS_HOME", str(tmp_path / "home"))

    async def elsewhere() -> int:
        return 0

    for model in ("restarted", "deleted", "gone"):
        await finish_run(store, model, 3)
    await restart(store, "restarted", 1)
    await delete(store, "deleted", elsewhere)
    store.delete("gone/")
    runs, unreadable = list_runs(store, NOW)
    assert [(run.model, run.step) for run in runs] == [("restarted", 1)]
    assert unreadable == []
    assert "deleted" not in read_index(store)


async def test_runs_that_end_at_once_are_all_in_it(store: FolderStore) -> None:
    models = [f"m{number}" for number in range(12)]
    await asyncio.gather(*(finish_run(store, model) for model in models))
    assert sorted(read_index(store)) == sorted(models)


@pytest.mark.parametrize("content", [b"{", b'{"version": 1, "runs": [{"future": 1}]}'])
async def test_an_index_that_cannot_be_read_is_done_without_and_made_anew(
    store: FolderStore, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    await finish_run(store, "m")
    store.put(INDEX_KEY, content)
    runs, _ = list_runs(store, NOW)
    assert [run.model for run in runs] == ["m"]
    assert "The runs are read one by one" in caplog.text
    await finish_run(store, "n")
    assert list(read_index(store)) == ["n"]
    assert len(list_runs(store, NOW)[0]) == 2


async def test_a_run_whose_line_cannot_be_written_is_read_one_by_one(
    store: FolderStore, caplog: pytest.LogCaptureFixture
) -> None:
    class Refusing(FolderStore):
        def put_if(self, key: str, data: bytes, version: str | None) -> str:
            if key == INDEX_KEY:
                raise StoreError("The disk is full.")
            return super().put_if(key, data, version)

    make_run(store, "m", 1)
    async with leased(Refusing(store.root), "m", "train"):
        pass
    assert "The disk is full" in caplog.text
    (run,), _ = list_runs(store, NOW)
    assert (run.model, run.held_by) == ("m", None)


def test_a_former_holder_is_refused_though_no_line_has_changed(store: FolderStore) -> None:
    """Its check came before the lease was taken over, its line comes after."""
    make_run(store, "m", 1)
    make_run(store, "other", 1)
    add_line(store, "other", lambda: None)

    def check() -> None:
        taken_over.append(True)
        if len(taken_over) > 1:
            raise LeaseLost("It is another run's.")
        remove_line(store, "m", held_before=True)

    taken_over: list[bool] = []
    with pytest.raises(LeaseLost):
        add_line(store, "m", check)
    assert list(read_index(store)) == ["other"]


def test_two_that_write_it_at_once_keep_both_lines(store: FolderStore) -> None:
    make_run(store, "m", 1)
    make_run(store, "n", 1)
    both = threading.Barrier(2)
    met: list[bool] = []

    def meet() -> None:
        if not met:  # the first try of each
            both.wait(10)
            met.append(True)

    writers = [threading.Thread(target=add_line, args=(store, one, meet)) for one in ("m", "n")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(30)
    assert sorted(read_index(store)) == ["m", "n"]


def test_a_run_without_a_validation_has_a_line() -> None:
    line = listed(Ledger(model="m", config="c", corpus="k"), NOW)
    assert (line.step, line.accuracy, line.best, line.best_step) == (0, None, None, None)
    validated = Ledger(model="m", config="c", corpus="k").add_validation(validation(0, 0.25))
    assert listed(validated, NOW).best_step == 0
