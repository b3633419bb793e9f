"""The runs in a store: progress, cost and holder of each."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime

from precis.errors import CorruptCheckpoint, StoreError
from precis.record import json_digest
from precis.records.ledger import Ledger, Validation, find_ledger, ledger_key, no_ledger
from precis.runs.checkpoints import complete_manifest, verify
from precis.runs.lease import Holder, live_holder
from precis.runs.repair import refuse_lost_ledger
from precis.runs.retention import keys_by_step
from precis.store import Store
from precis.store.files import REQUESTS_AT_ONCE
from precis.store.keys import fault_of


@dataclass(frozen=True)
class ListedRun:
    """A run in a line.

    Attributes:
        step: its newest committed adapter.
        written: the time of its ledger's last write, by the store's clock.
        measure: the name of its validations' measure, such as `accuracy`; empty before one.
        is_share: whether that is a share, shown as a percentage.
        score: that of its newest validation.
        best: that of its best validation; of equal ones the newer.
        is_lower_bound: whether some calls had no known price, which its dollars do not count.
        held_by: the live run that works on it.
        yardstick: digest of its documents, judge and measure: scores of runs that share it can be
            compared.
    """

    model: str
    step: int
    written: datetime
    measure: str
    is_share: bool
    score: float | None
    best: float | None
    best_step: int | None
    usd: float
    is_lower_bound: bool
    held_by: str | None
    yardstick: str


@dataclass(frozen=True)
class Overview:
    """A run with its ledger.

    Attributes:
        written: when its ledger was last written, by the store's clock.
        holder: the run that works on it now; None where no live one does.
    """

    model: str
    ledger: Ledger
    written: datetime
    holder: Holder | None

    @property
    def last(self) -> Validation | None:
        return self.ledger.validations[-1] if self.ledger.validations else None

    @property
    def line(self) -> ListedRun:
        judge = self.ledger.settings.get("judge") or {}
        asked = [judge.get(name) for name in ("provider", "model", "protocol")]
        last = self.last
        best = self.ledger.best
        measure = last.measure if last else ""
        return ListedRun(
            model=self.model,
            step=self.ledger.next_step,
            written=self.written,
            measure=measure,
            is_share=last is not None and last.score.is_share,
            score=last.score.value if last else None,
            best=best.score.value if best else None,
            best_step=best.step if best else None,
            usd=self.ledger.usd,
            is_lower_bound=self.ledger.is_lower_bound,
            held_by=self.holder.run if self.holder else None,
            yardstick=json_digest([self.ledger.corpus, asked, measure]),
        )


@dataclass(frozen=True)
class StoredCheckpoint:
    """A checkpoint in the store.

    Attributes:
        damage: a sentence on what it lacks; empty where nothing was found.
    """

    step: int
    bytes: int
    damage: str


def list_runs(
    store: Store, on_read: Callable[[int, int], None] = lambda done, total: None
) -> tuple[list[ListedRun], dict[str, str]]:
    """List every run of a store, the last written first; and, by model, why the records of others
    can't be read, a sentence each.

    Ledgers and leases are read, a few at a time, and no checkpoint. `on_read` is called with the
    number of folders read so far and of all.
    """
    runs = []
    unreadable = {}
    models = [name for name in store.folders() if not fault_of(ledger_key(name))]

    def read(model: str) -> ListedRun | str | None:
        try:
            found = find_overview(store, model)
            if found is None:
                refuse_lost_ledger(store, model)
        except StoreError as error:
            return str(error)
        return found.line if found else None

    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as threads:
        for done, found in enumerate(threads.map(read, models), start=1):
            if isinstance(found, str):
                unreadable[models[done - 1]] = found
            elif found:
                runs.append(found)
            on_read(done, len(models))
    runs.sort(key=lambda run: run.written, reverse=True)
    return runs, unreadable


def overview(store: Store, model: str) -> Overview:
    """Return a run; a StoreError says that there is none, or that its ledger is lost or damaged."""
    found = find_overview(store, model)
    if found is None:
        raise no_ledger(store, model)
    return found


def find_overview(store: Store, model: str) -> Overview | None:
    """Return a run; None where there is no such run."""
    found = find_ledger(store, model)
    if found is None:
        return None
    ledger, blob = found
    return Overview(model, ledger, blob.written, live_holder(store, model))


def kept_checkpoints(store: Store, model: str, *, read: bool = False) -> list[StoredCheckpoint]:
    """List every checkpoint that has any file, ascending; with `read` the files' contents are
    compared with the manifest, not only their sizes."""
    sizes = store.sizes(f"{model}/checkpoints/")
    begun = keys_by_step(sizes)

    def describe(step: int) -> StoredCheckpoint:
        damage = ""
        try:
            checkpoint = complete_manifest(store, model, step, sizes)
            if read:
                verify(store, checkpoint)
        except CorruptCheckpoint as error:
            damage = str(error)
        return StoredCheckpoint(step, sum(sizes[key] for key in begun[step]), damage)

    with ThreadPoolExecutor(1 if read else REQUESTS_AT_ONCE) as threads:
        return list(threads.map(describe, begun))


def sizes_of_run(store: Store, model: str) -> dict[str, int]:
    """Return the size of each object of a run, by its key; an UnusableRun says that the store has
    none."""
    # A text that is not a name could be a folder within a run.
    sizes = {} if "/" in model else store.sizes(f"{model}/")
    if not sizes:
        raise no_ledger(store, model)
    return sizes
