"""What a store knows of its runs: how far each came, what it cost, and who works on it."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from precis.errors import CorruptCheckpoint, StoreError, UnusableRun
from precis.records.ledger import Ledger, Validation, find_ledger, ledger_key, no_ledger
from precis.run.checkpoints import complete_manifest
from precis.run.holder import Holder, is_alive
from precis.run.index import ListedRun, listed, read_index
from precis.run.lease import read_lease
from precis.run.retention import steps_begun
from precis.store import Store
from precis.store.keys import fault_of

_READ_AT_ONCE = 16


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
        """Its newest validation."""
        return self.ledger.validations[-1] if self.ledger.validations else None

    @property
    def best(self) -> Validation | None:
        """Its most accurate validation; of equal ones the newer."""
        return self.ledger.best

    @property
    def line(self) -> ListedRun:
        """The same in a line."""
        return listed(self.ledger, self.written, self.holder.run if self.holder else None)


@dataclass(frozen=True)
class Unreadable:
    """A run whose records can't be read, and why, as a sentence."""

    model: str
    why: str


@dataclass(frozen=True)
class StoredCheckpoint:
    """A checkpoint in the store; `damage` says what it lacks, and is empty where it is whole."""

    step: int
    bytes: int
    damage: str


def list_runs(store: Store, now: datetime) -> tuple[list[ListedRun], list[Unreadable]]:
    """Every run of a store, the one that was written last first; and the unreadable.

    Of the runs in the index nothing else is read, and nobody's checkpoints are listed.

    Raises:
        StoreError: the store can't be asked.
    """
    index = read_index(store)
    models = store.folders()
    runs = [index[model] for model in models if model in index]
    unreadable = []
    for found in _look_up(store, [model for model in models if model not in index], now):
        if isinstance(found, Unreadable):
            unreadable.append(found)
        elif found:
            runs.append(found.line)
    return sorted(runs, key=lambda run: run.written, reverse=True), unreadable


def overview(store: Store, model: str, now: datetime) -> Overview:
    """One run.

    Raises:
        StoreError: there is no such run, or its ledger or lease can't be read.
    """
    found = find_overview(store, model, now)
    if found is None:
        raise no_ledger(store, model)
    return found


def find_overview(store: Store, model: str, now: datetime) -> Overview | None:
    """One run; None where there is no such run.

    Raises:
        StoreError: its ledger or lease can't be read.
    """
    found = find_ledger(store, model)
    if found is None:
        return None
    ledger, written = found
    holder = read_lease(store, model)
    alive = holder if holder and is_alive(holder, now) else None
    return Overview(model, ledger, written, alive)


def kept_checkpoints(store: Store, model: str) -> list[StoredCheckpoint]:
    """Every checkpoint that has any file, ascending. Contents are not read, only their sizes."""
    sizes = store.sizes(f"{model}/checkpoints/")
    with ThreadPoolExecutor(_READ_AT_ONCE) as threads:
        return list(threads.map(partial(_describe, store, model, sizes), steps_begun(sizes)))


def sizes_of_run(store: Store, model: str) -> dict[str, int]:
    """What the store holds of a run: the size of each object, by its key.

    Raises:
        UnusableRun: it holds nothing of it.
    """
    # What is no name would be a folder within a run.
    sizes = {} if "/" in model else store.sizes(f"{model}/")
    if not sizes:
        raise UnusableRun(f"{store.url} holds no run {model!r}.", "See `precis runs list`.")
    return sizes


def models_in(store: Store) -> list[str]:
    """The models that a store has ledgers of, also of those that can't be read, sorted."""
    runs, unreadable = list_runs(store, datetime.now(UTC))
    return sorted([*(run.model for run in runs), *(run.model for run in unreadable)])


def _look_up(
    store: Store, models: Sequence[str], now: datetime
) -> list[Overview | Unreadable | None]:
    """Read these models' ledgers and leases, many at a time; None for what is no run."""
    with ThreadPoolExecutor(_READ_AT_ONCE) as threads:
        return list(threads.map(partial(_overview_or_why, store, now), models))


def _overview_or_why(store: Store, now: datetime, model: str) -> Overview | Unreadable | None:
    if fault_of(ledger_key(model)):
        return None
    try:
        return find_overview(store, model, now)
    except StoreError as error:
        return Unreadable(model, str(error))


def _describe(store: Store, model: str, sizes: dict[str, int], step: int) -> StoredCheckpoint:
    own = f"/checkpoints/{step:04d}/"
    total = sum(size for key, size in sizes.items() if own in key)
    try:
        complete_manifest(store, model, step, sizes)
    except CorruptCheckpoint as error:
        return StoredCheckpoint(step, total, str(error))
    return StoredCheckpoint(step, total, "")
