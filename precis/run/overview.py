"""What a store knows of its runs: how far each came, what it cost, and who works on it."""

from dataclasses import dataclass
from datetime import datetime

from precis.errors import CorruptCheckpoint, StoreError, UnusableRun
from precis.records.ledger import Ledger, Validation, ledger_key, load_ledger
from precis.run.checkpoints import complete_manifest
from precis.run.holder import Holder, is_alive
from precis.run.lease import read_lease
from precis.run.retention import steps_begun
from precis.store import Store
from precis.store.files import last_modified
from precis.store.keys import fault_of


@dataclass(frozen=True)
class Overview:
    """A run in a line.

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


def overviews(store: Store, now: datetime) -> list[Overview | Unreadable]:
    """Every run of a store, the one that was written last first; the unreadable at the end.

    Raises:
        StoreError: the store can't be asked.
    """
    found = [_overview_or_why(store, model, now) for model in models_in(store)]
    readable = [one for one in found if isinstance(one, Overview)]
    return [
        *sorted(readable, key=lambda one: one.written, reverse=True),
        *(one for one in found if isinstance(one, Unreadable)),
    ]


def overview(store: Store, model: str, now: datetime) -> Overview:
    """One run.

    Raises:
        StoreError: there is no such run, or its ledger or lease can't be read.
    """
    ledger = load_ledger(store, model)
    holder = read_lease(store, model)
    alive = holder if holder and is_alive(holder, now) else None
    return Overview(model, ledger, last_modified(store, ledger_key(model)), alive)


def kept_checkpoints(store: Store, model: str) -> list[StoredCheckpoint]:
    """Every checkpoint that has any file, ascending. Contents are not read, only their sizes."""
    sizes = store.sizes(f"{model}/checkpoints/")
    return [_describe(store, model, step, sizes) for step in steps_begun(sizes)]


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
    """The models that a store has ledgers of; their checkpoints, which are many, are not listed."""
    return [name for name in store.folders() if _has_ledger(store, name)]


def _has_ledger(store: Store, model: str) -> bool:
    key = ledger_key(model)
    if fault_of(key):
        return False
    try:
        return store.get(key) is not None
    except StoreError:  # it is there, and who reads it is told why that fails
        return True


def _overview_or_why(store: Store, model: str, now: datetime) -> Overview | Unreadable:
    try:
        return overview(store, model, now)
    except StoreError as error:
        return Unreadable(model, str(error))


def _describe(store: Store, model: str, step: int, sizes: dict[str, int]) -> StoredCheckpoint:
    own = f"/checkpoints/{step:04d}/"
    total = sum(size for key, size in sizes.items() if own in key)
    try:
        complete_manifest(store, model, step, sizes)
    except CorruptCheckpoint as error:
        return StoredCheckpoint(step, total, str(error))
    return StoredCheckpoint(step, total, "")
