"""The index of a store's runs: a line for each that nobody works on, all in one object.

A run's ledger is the truth, but it takes seconds to read a thousand of them from a bucket. So who
is about to give a model's lease back writes the model's line into `runs.json`, and who takes the
lease removes it: a line that is there says what the ledger says. A run that is at work, or was
killed, has none; neither have those of a version that knew no index. They are read one by one.

A process that lost its lease and does not know it yet can do no harm. It reads the index, sees
that the lease is its own, and writes over the version that it has read; who took the lease over
writes the index after that, so the stale line is refused, or removed.
"""

import logging
import random
import secrets
import time
from collections.abc import Callable, Mapping
from datetime import datetime

from pydantic import AwareDatetime, ValidationError

from precis.errors import StoreConflict
from precis.record import Amount, Count, Finite, Name, Record, Step
from precis.records.ledger import Ledger, find_ledger
from precis.store import Store

INDEX_KEY = "runs.json"
_PATIENCE_S = 10.0
_PAUSE_MAX_S = 0.3
"""Before the index is written again where another run was faster."""
_log = logging.getLogger(__name__)


class ListedRun(Record):
    """A run in a line."""

    model: Name
    step: Step
    """Its newest committed adapter."""
    written: AwareDatetime
    """When its ledger was last written, by the store's clock."""
    accuracy: Finite | None
    """Of its newest validation."""
    best: Finite | None
    """Of its most accurate validation; of equal ones the newer."""
    best_step: Step | None
    usd: Amount
    held_by: str | None = None
    """The run that works on it now."""


class RunIndex(Record):
    """The content of `runs.json`."""

    version: Count = 1
    write: str = ""
    """Drawn anew for each write: the store's versions are of the content, and one that is written
    over with the same lines must be another."""
    runs: tuple[ListedRun, ...] = ()


Runs = Mapping[str, ListedRun]


def listed(ledger: Ledger, written: datetime, held_by: str | None = None) -> ListedRun:
    """A run's line."""
    newest = ledger.validations[-1] if ledger.validations else None
    best = ledger.best
    return ListedRun(
        model=ledger.model,
        step=ledger.next_step,
        written=written,
        accuracy=newest.accuracy if newest else None,
        best=best.accuracy if best else None,
        best_step=best.step if best else None,
        usd=ledger.usd,
        held_by=held_by,
    )


def read_index(store: Store) -> Runs:
    """The lines of those runs that have one, by their models.

    Raises:
        StoreError: the store can't be asked.
    """
    return _read(store)[0]


def add_line(store: Store, model: str, check: Callable[[], None]) -> None:
    """Write a model's line, as its ledger is now.

    Args:
        check: raises where the model's lease is another run's by now.

    Raises:
        StoreConflict: others write the index all the time.
        StoreError: the store can't be asked, or the ledger can't be read.
    """

    def with_line(runs: Runs) -> Runs | None:
        check()
        found = find_ledger(store, model)
        return {**runs, model: listed(*found)} if found else None

    _update(store, with_line)


def remove_line(store: Store, model: str, held_before: bool) -> None:
    """Remove a model's line, if it has one.

    Args:
        held_before: whether there may be a former holder, who must not write a line any more; the
            index is then written even if it stays the same.

    Raises:
        StoreConflict: others write the index all the time.
        StoreError: the store can't be asked.
    """

    def without_line(runs: Runs) -> Runs | None:
        if model not in runs and not held_before:
            return None
        return {name: line for name, line in runs.items() if name != model}

    _update(store, without_line)


def _update(store: Store, change: Callable[[Runs], Runs | None]) -> None:
    """Write what `change` makes of the index, if it is not None; again where others were faster."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        runs, version = _read(store)
        changed = change(runs)
        if changed is None:
            return
        try:
            store.put_if(INDEX_KEY, _json(changed), version)
            return
        except StoreConflict:
            if time.monotonic() > deadline:
                raise
        time.sleep(random.uniform(0, _PAUSE_MAX_S))


def _json(runs: Runs) -> bytes:
    index = RunIndex(write=secrets.token_hex(8), runs=tuple(runs.values()))
    return index.model_dump_json().encode()


def _read(store: Store) -> tuple[Runs, str | None]:
    """The lines, and the version that they were read at."""
    blob = store.get(INDEX_KEY)
    if blob is None:
        return {}, None
    try:
        lines = RunIndex.model_validate_json(blob.data).runs
    except ValidationError:
        _log.warning(
            "%s/%s can't be read by this version of Précis. The runs are read one by one, and the "
            "next that ends makes it anew.",
            store.url,
            INDEX_KEY,
        )
        return {}, blob.version
    return {line.model: line for line in lines}, blob.version
