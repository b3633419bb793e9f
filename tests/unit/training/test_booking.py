"""What a run has spent, and what of that its ledger says."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from precis.cluster.site import HourlyPrice
from precis.config import TrainConfig
from precis.errors import StoreConflict, StoreError
from precis.records.ledger import load_ledger
from precis.records.spend import Spend
from precis.store import FolderStore
from precis.training.meter import Meter
from precis.training.run import Run
from tests.support.corpora import corpus
from tests.support.dying_store import SilentStore
from tests.support.environments import summaries_of
from tests.support.ledgers import record


class Lease:
    id = "lease"

    async def check(self) -> None:
        """It is held."""


class Process:
    """A run in a process of its own."""

    def __init__(self, folder: Path, store: FolderStore | None = None) -> None:
        settings = TrainConfig(store=str(folder))
        judge: Any = SimpleNamespace(identity={"model": "a-judge"}, spend=Spend())
        lease: Any = Lease()
        trainer: Any = SimpleNamespace(meter=Meter())
        environment = summaries_of(settings, corpus(), judge)
        nobody: Any = None
        store = store or FolderStore(folder)
        self.run = Run(settings, environment, nobody, store, lease, trainer)


async def test_what_a_service_charges_counts_before_its_step_is_committed(tmp_path: Path) -> None:
    """Or a budget that is used up would let one more step begin."""
    here = Process(tmp_path)
    await here.run.read_ledger()
    here.run.described = record(0, usd=0.0)
    here.run.service_usd = 4.0
    assert here.run.usd == pytest.approx(4.0)
    charged = here.run.described.model_copy(update={"machine_usd": 4.0})
    await here.run.write_ledger(here.run.ledger.advance(charged))
    assert here.run.usd == pytest.approx(4.0)


@pytest.mark.parametrize("fails", [False, True])
async def test_the_machine_is_booked_for_a_benchmark_after_the_training(
    fails: bool, tmp_path: Path
) -> None:
    """Its judging is in its own report."""
    hours = 0.0
    here = Process(tmp_path)
    await here.run.read_ledger()
    here.run.trainer.meter = meter = Meter(lambda: 3600 * hours)
    meter.start(HourlyPrice(2.0, 2.0))
    with pytest.raises(ValueError) if fails else nullcontext():
        async with here.run.machine_booked():
            hours = 3.0
            if fails:
                raise ValueError
    assert load_ledger(here.run.store, here.run.name).usd == pytest.approx(6.0)
    assert meter.unbooked_usd == 0


async def test_a_written_ledger_whose_answer_was_lost_does_not_end_its_run(tmp_path: Path) -> None:
    """A commit that is tried again has taken longer, so its step is not the one in the store."""
    store = SilentStore(tmp_path)
    here = Process(tmp_path, store)
    await here.run.read_ledger()
    tries = [record(0).model_copy(update={"commit_s": seconds}) for seconds in (1.0, 30.0)]
    store.silent = True
    with pytest.raises(StoreError, match="No whole answer"):
        await here.run.write_ledger(here.run.ledger.advance(tries[0]))
    store.silent = False
    await here.run.write_ledger(here.run.ledger.advance(tries[1]))
    assert load_ledger(store, here.run.name).steps == (tries[1],)
    other = Process(tmp_path, store)
    await other.run.read_ledger()
    await other.run.write_ledger(other.run.ledger.charge(1.0))
    with pytest.raises(StoreConflict):
        await here.run.write_ledger(here.run.ledger.charge(2.0))
