"""A run's lease on its model: who may write the model's checkpoints and ledger.

    async with leased(store, "summarizer", run="train-3f") as lease:
        …
        await lease.check()     # before anything is written
        …

The lease is the object `{model}/lease.json`, changed by conditional writes only. Its holder renews
it three times within its term. A run that finds it dead, or has to take it over, writes its own
name over it, and the former holder's next renewal fails. `check` renews too. So a wrong clock can
cost a live run its lease, but two runs never both pass `check`: the store's versions decide.

On the machine where the lease was taken its holder is dead as soon as its process is gone. Seen
from elsewhere it is dead when the lease has expired by the reader's clock, with a margin for clocks
that differ.
"""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shlex import quote

from pydantic import AwareDatetime, ValidationError

from precis.errors import LeaseHeld, LeaseLost, StoreConflict, StoreError
from precis.record import Count, Record, json_digest
from precis.store import Blob, Store
from precis.store.protocol import OwnObject

Clock = Callable[[], datetime]

TTL_S = 60.0
_CLOCKS_DIFFER = timedelta(seconds=30)
_LOST_S = 5.0
"""For an ending run's check of its lease; Prefect kills a cancelled run after half a minute."""
_TAKE_OVER = "`-p take_over=true` (`make rehearse TAKE_OVER=1`, `precis rehearse --take-over`)"
_log = logging.getLogger(__name__)


class Holder(Record):
    """The holder of a lease, and its time of expiry; the content of `lease.json`."""

    run: str
    """The run's name or id, as its user knows it."""
    host: str
    pid: Count
    machine: str
    """Boot and process namespace, in which `pid` is unique; empty if unknown."""
    process_started: str
    """The process's start by the kernel's clock; a later process can have the same pid."""
    since: AwareDatetime
    """The time at which the lease was taken."""
    expires: AwareDatetime
    """The time at which it ends unless renewed, by the holder's clock."""
    renewals: Count = 0
    """Times it was renewed, so that no two writes of a lease are the same."""
    released: bool = False
    """True once the holder gave it back."""

    @property
    def id(self) -> str:
        """The lease's unique name, the same at each renewal."""
        since = self.since.isoformat()
        who = (self.run, self.machine, self.host, self.pid, self.process_started, since)
        return json_digest(who)[:16]

    def __str__(self) -> str:
        return f"the run {self.run} (process {self.pid} on {self.host})"


def this_process(run: str, now: datetime, ttl: timedelta) -> Holder:
    """Return this process as the holder of a lease taken now."""
    return Holder(
        run=run,
        host=socket.gethostname(),
        pid=os.getpid(),
        machine=_machine(),
        process_started=_start_ticks(os.getpid()),
        since=now,
        expires=now + ttl,
    )


def is_alive(holder: Holder, now: datetime) -> bool:
    """Return whether a lease must be respected."""
    if holder.released:
        return False
    if holder.machine and holder.machine == _machine():
        with suppress(PermissionError):
            return _start_ticks(holder.pid) == holder.process_started
    return now - _CLOCKS_DIFFER <= holder.expires


def _machine() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}:{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:  # not Linux: the clock alone decides
        return ""


def _start_ticks(pid: int) -> str:
    """Return the clock ticks from this machine's start to a process's, which no change of the time
    moves as psutil's `create_time` does; empty if it has ended. A PermissionError says that it is
    another user's, and /proc hides those (hidepid)."""
    try:
        # The name, in parentheses, may contain spaces; see proc(5).
        state = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        with suppress(ProcessLookupError):
            os.kill(pid, 0)
        return ""
    return "" if state[0] in "ZX" else state[19]


class Lease:
    """A lease that is held, until another run has taken it over.

    Attributes:
        former: the run that held it until then, if that run has not given it back.
        taker: the run that has taken it over, once `check` has found that one has.
    """

    def __init__(
        self,
        store: Store,
        model: str,
        holder: Holder,
        former: Holder | None,
        version: str | None,
        now: Clock,
    ) -> None:
        self.holder = holder
        self.former = former
        self.taker: Holder | None = None
        self._store = store
        self._model = model
        self._ttl = holder.expires - holder.since
        self._now = now
        self._stored = OwnObject(store, lease_key(model), version)
        self._lost: LeaseLost | None = None
        self._writing = asyncio.Lock()

    @property
    def id(self) -> str:
        """The lease's name, for a process that writes for its holder (`check_lease`)."""
        return self.holder.id

    @property
    def dead(self) -> Holder | None:
        """The former run if it is dead; None if there is none, or it may be alive."""
        is_dead = self.former is not None and not is_alive(self.former, self._now())
        return self.former if is_dead else None

    async def check(self) -> None:
        """Renew the lease before a write. A LeaseLost says that another run has taken it over."""
        if self._lost:
            raise self._lost
        async with self._writing:
            try:
                await self._advance(released=False)
            except StoreConflict as error:
                self.taker = await asyncio.to_thread(read_lease, self._store, self._model)
                self._lost = _loss_of(self._model, self.taker)
                raise self._lost from error

    async def is_lost(self) -> bool:
        """Return whether another run has taken it over; False where the store does not answer in a
        few seconds."""
        with suppress(StoreError, TimeoutError):
            async with asyncio.timeout(_LOST_S):
                await self.check()
        return self._lost is not None

    async def _advance(self, released: bool) -> None:
        changes = {"expires": self._now() + self._ttl, "released": released}
        renewals = self.holder.renewals + 1
        renewed = self.holder.model_copy(update={**changes, "renewals": renewals})
        await asyncio.to_thread(self._stored.write, renewed.model_dump_json().encode())
        self.holder = renewed

    async def _keep(self, stop: Callable[[], bool]) -> bool:
        """Renew until lost; `stop` a holder that has not found out itself, and return whether."""
        while True:
            # Three times in its term: one renewal, or two, may fail without losing it.
            await asyncio.sleep(self._ttl.total_seconds() / 3)
            if self._lost:
                return False
            try:
                await self.check()
            except LeaseLost:
                return stop()
            except StoreError as error:
                _log.warning("The lease on %r could not be renewed: %s", self._model, error)


@asynccontextmanager
async def leased(
    store: Store,
    model: str,
    run: str,
    *,
    ttl_s: float = TTL_S,
    take_over: bool = False,
    one_run: bool = False,
    remedy: str = "",
    now: Clock = lambda: datetime.now(UTC),
) -> AsyncIterator[Lease]:
    """Hold the lease on a model while the block lasts; a LeaseHeld says who else does. A block that
    lasts after the lease is lost is cancelled, and a LeaseLost raised in its place.

    Args:
        run: this run's name in another run's refusal.
        ttl_s: seconds after the last renewal until others may take it over.
        take_over: take it from its holder.
        one_run: a holder of the same name is an earlier attempt, and is taken over.
        remedy: advice about a live holder; empty where it may be taken over.
    """
    own = this_process(run, now(), timedelta(seconds=ttl_s))
    while True:
        present = await asyncio.to_thread(store.get, lease_key(model))
        holder = None
        with suppress(StoreError) if take_over else nullcontext():  # which replaces a damaged one
            holder = _parse(present, store, model) if present else None
        takes_over = take_over or (one_run and holder is not None and holder.run == run)
        if holder and not takes_over and is_alive(holder, own.since):
            raise _refusal(holder, model, remedy)
        former = None if holder is None or holder.released else holder
        lease = Lease(store, model, own, former, present.version if present else None, now)
        try:
            await asyncio.to_thread(lease._stored.write, own.model_dump_json().encode())
            break
        except StoreConflict as error:
            winner = await asyncio.to_thread(read_lease, store, model)
            # One that is taken over may have been renewed in between: then again.
            if not (takes_over and winner and holder and winner.id == holder.id):
                raise _refusal(winner, model, remedy) from error
    holding = asyncio.current_task()
    assert holding is not None
    keeping = asyncio.create_task(lease._keep(holding.cancel))
    try:
        yield lease
    except asyncio.CancelledError:
        was_stopped = keeping.done() and keeping.result()
        if lease._lost and was_stopped and not holding.uncancel():
            raise lease._lost from None
        raise
    finally:
        # No renewal may come after the release, which would bring the lease back to life.
        keeping.cancel()
        with suppress(asyncio.CancelledError):
            await keeping
        try:
            async with lease._writing:
                await lease._advance(released=True)
        except StoreConflict:
            pass  # another run has it by now
        except StoreError as error:
            _log.warning("The lease on %r was not given back and will expire: %s", model, error)


def lease_key(model: str) -> str:
    return f"{model}/lease.json"


def read_lease(store: Store, model: str) -> Holder | None:
    """Read who holds, or last held, the lease on a model; None if it was never held. A StoreError
    says that the lease can't be read, or was written by a newer Précis."""
    blob = store.get(lease_key(model))
    return _parse(blob, store, model) if blob else None


def live_holder(store: Store, model: str) -> Holder | None:
    """Return the live run that holds the lease on a model, or None; raises as `read_lease`."""
    holder = read_lease(store, model)
    return holder if holder and is_alive(holder, datetime.now(UTC)) else None


def check_free(store: Store, model: str) -> None:
    """See that no live run holds the lease on a model; a LeaseHeld says that one does."""
    holder = live_holder(store, model)
    if holder is not None:
        raise _refusal(holder, model, "")


def check_lease(store: Store, model: str, lease: str) -> None:
    """Check that a lease, by its id, was not taken over (LeaseLost); renews nothing.

    A conditional write over a version that was read before this call is then never stale: a run
    that takes the lease over writes later, and the write fails. An empty id is not checked: no
    other run can write the model.
    """
    if not lease:
        return
    holder = read_lease(store, model)
    if holder is None or holder.id != lease:
        raise _loss_of(model, holder)


def _loss_of(model: str, holder: Holder | None) -> LeaseLost:
    return LeaseLost(
        f"The model {model!r} was taken over by {holder or 'somebody'}, so this run has stopped.",
        "What it committed is kept.",
    )


def _refusal(holder: Holder | None, model: str, remedy: str) -> LeaseHeld:
    if holder is None:
        return LeaseHeld(f"Another run has just begun to train {model!r}: try again in a moment.")
    if remedy:
        return LeaseHeld(f"The model {model!r} is held by {holder}.", remedy)
    return LeaseHeld(
        f"The model {model!r} is held by {holder} since "
        f"{holder.since:%Y-%m-%d %H:%M:%S} UTC. Let it finish or stop it; if it is dead, its lease "
        f"ends after {holder.expires:%H:%M:%S} UTC. To stop it from here and continue in its "
        f"place, start this run with {_TAKE_OVER}."
    )


def _parse(blob: Blob, store: Store, model: str) -> Holder:
    try:
        return Holder.model_validate_json(blob.data)
    except ValidationError as error:
        raise StoreError(
            f"{lease_key(model)} can't be read as a lease of this version of Précis.",
            "Update Précis, or, if no other run works on the model, replace it with "
            f"`precis runs repair {model} --take-over --store {quote(store.url)}`.",
        ) from error
