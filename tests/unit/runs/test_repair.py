"""A ledger that is lost or damaged is rebuilt from the checkpoints, and says what is gone."""

import shutil
from pathlib import Path

import pytest

from precis.benchmark.measure import with_settings_of_its_run
from precis.config import BenchmarkConfig, Retention, TrainConfig
from precis.errors import ConfigError, CorruptCheckpoint, LeaseHeld, StoreError, UnusableRun
from precis.records.ledger import Ledger, ledger_key, load_ledger, write_ledger
from precis.records.manifests import manifest_key, pointer_key
from precis.records.metrics import metrics_frame
from precis.runs.checkpoints import commit, complete_around
from precis.runs.continuation import check_settings
from precis.runs.lease import lease_key
from precis.runs.overview import list_runs
from precis.runs.repair import repair
from precis.runs.restart import restart
from precis.runs.retention import prune, remove
from precis.store import FolderStore
from precis.trainer.protocol import TrainerState
from precis.training.resume import reconcile
from tests.support.dying_store import kill_at_each_write
from tests.support.ledgers import record, stored_ledger, warm_start
from tests.support.runs import file_key, hold, make_run, precis_runs

STEPS = 4
NO_TRAINER = TrainerState(run="", checkpoints={}, trained={})


@pytest.fixture
def store(store: FolderStore) -> FolderStore:
    make_run(store, "m", STEPS)
    return store


def flip(store: FolderStore, key: str) -> None:
    """Change a bit of a file, which stays as long as it was."""
    data = bytearray((store.root / key).read_bytes())
    data[len(data) // 2] ^= 1
    (store.root / key).write_bytes(data)


@pytest.mark.parametrize(
    ("garbage", "pointer"),
    [(None, None), (b"", b"garbage"), (b"\x00\xff garbage", None), (b'{"model": "m"', b"{}")],
)
async def test_a_lost_or_damaged_ledger_is_rebuilt_from_the_manifests(
    store: FolderStore, garbage: bytes | None, pointer: bytes | None
) -> None:
    before = load_ledger(store, "m")
    for key, content in ((ledger_key("m"), garbage), (pointer_key("m"), pointer)):
        store.delete(key)
        if content is not None:
            store.put(key, content)
    repaired = await repair(store, "m")
    ledger = load_ledger(store, "m")
    assert repaired.ledger == ledger
    assert (repaired.damage, repaired.beyond) == ((), ())
    assert bool(repaired.kept) is (garbage is not None)
    if garbage is not None:
        assert (store.root / repaired.kept).read_bytes() == garbage
    assert (ledger.next_step, ledger.steps, ledger.run_id) == (STEPS, before.steps, "first")
    assert ledger.usd == before.usd  # its validations have cost nothing
    whole = complete_around(store, "m", 0)
    assert ledger.checkpoints == {step: one.digest for step, one in whole.items()}
    assert (ledger.validations, ledger.rebuilt_at) == ((), STEPS)
    assert (store.root / pointer_key("m")).read_bytes() == b'{"step":4}'


async def test_what_is_no_damaged_ledger_stays_as_it_is(store: FolderStore) -> None:
    intact = (store.root / ledger_key("m")).read_bytes()
    shutil.copytree(store.root / "m", store.root / "renamed")
    with pytest.raises(ConfigError, match="is intact"):
        await repair(store, "m")
    assert store.get(lease_key("m")) is None
    newer = intact.replace(b'"version":1', b'"version":1,"invented":1')
    store.put(ledger_key("m"), newer)
    with pytest.raises(ConfigError, match="written by a newer Précis"):
        await repair(store, "m")
    with pytest.raises(StoreError, match="is the ledger of 'm'"):
        await repair(store, "renamed")
    with pytest.raises(UnusableRun, match="holds no run 'wrong'"):
        await repair(store, "wrong")
    assert (store.root / ledger_key("m")).read_bytes() == newer
    assert (store.root / ledger_key("renamed")).read_bytes() == intact
    assert store.folders() == ["m", "renamed"]


async def test_a_run_at_work_is_not_repaired(store: FolderStore) -> None:
    store.delete(ledger_key("m"))
    for command in (("show", "m"), ("open", "m"), ("restart", "m", "--step", 1)):
        said = precis_runs(*command, store=store, code=1)
        assert "its ledger is gone." in said
        assert f"Rebuild it with `precis runs repair m --store {store.url}`" in said
    hold(store, "m", "train-7")
    with pytest.raises(LeaseHeld, match="run train-7"):
        await repair(store, "m")
    assert (await repair(store, "m", take_over=True)).ledger.next_step == STEPS


def test_a_damaged_lease_of_a_run_with_an_intact_ledger_is_replaced(store: FolderStore) -> None:
    store.put(lease_key("m"), b"garbage")
    refused = precis_runs("delete", "m", "--yes", store=store, code=1)
    assert "replace it with `precis runs repair m --take-over --store " in refused
    said = precis_runs("repair", "m", "--take-over", store=store)
    assert said == "The damaged lease of m is replaced. Its ledger is intact.\n"
    assert "held by" in precis_runs("show", "m", store=store)
    assert "is intact" in precis_runs("repair", "m", "--take-over", store=store, code=1)


def test_the_steps_of_deleted_checkpoints_are_lost_and_said_to_be(store: FolderStore) -> None:
    store.put(ledger_key("m"), b"garbage")
    for step in (1, 3):
        remove(store, "m", step)
    said = precis_runs("repair", "m", store=store)
    assert "at step 4, from 3 checkpoints. Steps with their records: 2 of 4." in said
    assert "Lost: the records of the others, every validation" in said
    assert "the budget goes by $0.50" in said
    assert "kept as m/damaged-ledger-" in said
    shown = precis_runs("show", "m", store=store)
    assert "begun with unknown, the ledger was rebuilt" in shown
    ledger = load_ledger(store, "m")
    assert [one.step for one in ledger.steps] == [1, 3]
    assert metrics_frame(ledger)["reward"].to_list() == [None, 0.5, None, 0.5, None]
    further = ledger.advance(record(STEPS)).model_dump_json()
    assert Ledger.model_validate_json(further).next_step == STEPS + 1
    assert [one.step for one in ledger.rewind(2).steps] == [1]
    assert ledger.rewind(2).rebuilt_at == 2
    with pytest.raises(ValueError, match="do not run from 4 to 5"):
        ledger.advance(record(STEPS + 1))


async def test_a_warm_starts_cost_outlasts_the_ledger(store: FolderStore, tmp_path: Path) -> None:
    """Its teacher was paid, and the budget is for that too."""
    taught = record(0, warm_start=warm_start(usd=40.0))
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "weights").write_bytes(b"w")
    for step, made_by in enumerate((None, taught)):
        commit(store, "taught", step, tmp_path / "weights", "c", made_by, "first")
    ledger = (await repair(store, "taught")).ledger
    assert (ledger.usd, ledger.other_usd) == (40.25, 40.0), "each validation is forecast to cost it"


async def test_a_damaged_checkpoint_is_named_and_passed_over(store: FolderStore) -> None:
    store.delete(ledger_key("m"))
    flip(store, file_key(store, "m", STEPS, "weights"))
    store.put(manifest_key("m", 2), b"garbage")
    flip(store, file_key(store, "m", 1, "weights"))  # its manifest still has its step's record
    repaired = await repair(store, "m")
    assert repaired.ledger.next_step == 3
    assert [one.step for one in repaired.ledger.steps] == [0, 2]
    assert sorted(repaired.ledger.checkpoints) == [0, 3]
    at_1, at_2, at_4 = repaired.damage
    assert "0002/manifest.json is damaged" in at_2
    assert "differs from its manifest" in at_1 and "differs from its manifest" in at_4
    assert (store.root / pointer_key("m")).read_bytes() == b'{"step":3}'
    store.delete(ledger_key("m"))
    for step in (0, 3):
        flip(store, file_key(store, "m", step, "weights"))
    with pytest.raises(CorruptCheckpoint, match=r"No checkpoint of 'm' .* is whole"):
        await repair(store, "m")
    assert store.get(ledger_key("m")) is None
    for step in (0, 1, 3, 4):
        store.put(manifest_key("m", step), b"garbage")
    store.delete(pointer_key("m"))
    with pytest.raises(CorruptCheckpoint, match=r"is whole.*0004/manifest.json is damaged"):
        await repair(store, "m")


async def test_what_a_restart_left_behind_is_no_part_of_the_run(store: FolderStore) -> None:
    leftovers = shutil.copytree(store.root / "m" / "checkpoints", store.root.parent / "leftovers")
    await restart(store, "m", 2)
    shutil.copytree(leftovers / "0004", store.root / "m" / "checkpoints" / "0004")
    store.delete(ledger_key("m"))
    repaired = await repair(store, "m")
    assert (repaired.ledger.next_step, repaired.beyond) == (2, (4,))


async def test_a_killed_repair_can_be_done_again(store: FolderStore, tmp_path: Path) -> None:
    store.put(ledger_key("m"), b"garbage")
    store.delete(pointer_key("m"))
    intact = []
    async for cut_off in kill_at_each_write(store, tmp_path, lambda its: repair(its, "m")):
        try:
            await repair(cut_off, "m")
            intact.append(False)
        except ConfigError:
            intact.append(True)
        assert load_ledger(cut_off, "m").next_step == STEPS
    assert intact == [False, False, True, True]  # the copy, the ledger, the pointer


async def test_a_repaired_run_goes_on_with_the_settings_that_it_had(store: FolderStore) -> None:
    store.delete(ledger_key("m"))
    runs, lost = list_runs(store)
    assert runs == [] and "`precis runs repair m --store " in lost["m"]
    await repair(store, "m")
    ledger, version = stored_ledger(store)
    with pytest.raises(ConfigError, match="with other settings: which ones is not known"):
        check_settings(ledger, TrainConfig(model="m"), "other", "k", store.url)
    with pytest.raises(UnusableRun, match="does not know the run's settings"):
        with_settings_of_its_run(BenchmarkConfig(model="m"), store)
    plan = reconcile(ledger, complete_around(store, "m", STEPS), NO_TRAINER)
    assert (plan.ledger.next_step, plan.trainer) == (STEPS, "restore")
    started = ledger.under({"seed": 7}).model_copy(update={"corpus": "k"})
    write_ledger(store, started, version)
    with_settings_of_its_run(BenchmarkConfig(model="m"), store)
    # What may be the best checkpoint is not deleted.
    few = Retention(keep_last=1, keep_every=0, keep_best=1)
    assert prune(store, ledger, few) == []
