"""The lease: one run at a time, and one that has lost it writes nothing more."""

import asyncio
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from precis.errors import LeaseHeld, LeaseLost, StoreError
from precis.runs.lease import Holder, check_free, lease_key, leased, read_lease, this_process
from precis.store import Blob, FolderStore
from tests.services.patience import until


def elsewhere(store: FolderStore, now: datetime) -> None:
    """Put a lease into the store that another machine took."""
    holder = this_process("theirs", now, timedelta(seconds=60))
    there = holder.model_copy(update={"machine": "another boot"})
    store.put(lease_key("m"), there.model_dump_json().encode())


async def test_a_second_run_is_refused_with_how_to_take_over(store: FolderStore) -> None:
    async with leased(store, "m", "first"):
        with pytest.raises(LeaseHeld) as refusal:
            async with leased(store, "m", "second"):
                raise AssertionError
    said = str(refusal.value)
    assert "'m' is held by the run first (process " in said
    assert f"since {datetime.now(UTC):%Y-%m-%d}" in said
    assert "--take-over" in said


async def test_who_renews_all_the_time_can_be_taken_over(tmp_path: Path) -> None:
    """A rehearsal renews its lease some times a second, so a renewal may come in between."""

    class Busy(FolderStore):
        renewals = 3

        def put_if(self, key: str, data: bytes, version: str | None) -> str:
            taken = key == lease_key("m") and Holder.model_validate_json(data).run == "second"
            if taken and self.renewals:
                self.renewals -= 1
                present = self.get(key)
                assert present is not None
                renewed = Holder.model_validate_json(present.data)
                renewed = renewed.model_copy(update={"renewals": renewed.renewals + 1})
                super().put_if(key, renewed.model_dump_json().encode(), present.version)
            return super().put_if(key, data, version)

    store = Busy(tmp_path / "store")
    async with leased(store, "m", "first") as first, leased(store, "m", "second", take_over=True):
        with pytest.raises(LeaseLost, match="taken over by the run second"):
            await first.check()
    assert store.renewals == 0


async def test_who_is_taken_over_stops_at_once_whatever_it_waits_for(store: FolderStore) -> None:
    """Not at its next write: until then it pays for rollouts, and its trainer is in the way."""
    with pytest.raises(LeaseLost, match="taken over by the run second"):
        async with (
            leased(store, "m", "first", ttl_s=0.06) as first,
            leased(store, "m", "second", take_over=True),
        ):
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0.05)  # which cleaning up may take
                assert await first.is_lost()


async def test_who_is_cancelled_is_cancelled_though_its_lease_is_lost(store: FolderStore) -> None:
    async def hold() -> None:
        async with leased(store, "m", "first"), leased(store, "m", "second", take_over=True):
            held.set()
            await asyncio.Event().wait()

    held = asyncio.Event()
    holding = asyncio.create_task(hold())
    await held.wait()
    holding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await holding


async def test_a_run_that_has_taken_over_meanwhile_is_no_earlier_attempt(tmp_path: Path) -> None:
    since = datetime.now(UTC)
    attempt, other = (this_process(run, since, timedelta(minutes=1)) for run in ("run", "other"))

    class Contested(FolderStore):
        reads = 0

        def get(self, key: str) -> Blob | None:
            self.reads += 1
            if self.reads == 2:  # before our first try: a renewal
                renewed = attempt.model_copy(update={"renewals": 1})
                self.put(key, renewed.model_dump_json().encode())
            if self.reads == 5:  # before our second one
                self.put(key, other.model_dump_json().encode())
            return super().get(key)

    store = Contested(tmp_path / "store")
    store.put(lease_key("m"), attempt.model_dump_json().encode())
    with pytest.raises(LeaseHeld, match="held by the run other"):
        async with leased(store, "m", "run", one_run=True):
            raise AssertionError


async def test_a_renewal_that_was_cancelled_loses_nothing(store: FolderStore) -> None:
    async with leased(store, "m", "first") as lease:
        check = asyncio.create_task(lease.check())
        await asyncio.sleep(0)
        check.cancel()
        with pytest.raises(asyncio.CancelledError):
            await check
        await asyncio.sleep(0.05)
        await lease.check()
    holder = read_lease(store, "m")
    assert holder is not None and holder.released


async def test_a_lease_is_renewed_and_outlives_a_store_that_was_down(store: FolderStore) -> None:
    def refuse(*_: object) -> None:
        raise StoreError("The store is down.")

    async with leased(store, "m", "first", ttl_s=0.06) as lease:
        begun = lease.holder
        await until(lambda: lease.holder.renewals >= 2, "two renewals")
        assert lease.holder.expires > begun.expires
        with pytest.MonkeyPatch.context() as down:
            down.setattr(store, "put_if", refuse)
            await asyncio.sleep(0.1)
            with pytest.raises(StoreError, match="down"):
                await lease.check()
            assert not await lease.is_lost()  # its machine would be left running
        await lease.check()


@pytest.mark.parametrize(
    "gone", [{"pid": 2**30}, {"process_started": "1"}], ids=["no process", "another's pid"]
)
async def test_a_dead_process_here_holds_nothing(store: FolderStore, gone: dict[str, Any]) -> None:
    killed = this_process("killed", datetime.now(UTC), timedelta(minutes=1))
    left = killed.model_copy(update=gone)
    store.put(lease_key("m"), left.model_dump_json().encode())
    async with leased(store, "m", "next") as lease:
        assert lease.former == lease.dead == left
        await lease.check()
    async with leased(store, "m", "third") as lease:
        assert lease.former is None, "it was given back"


async def test_a_process_that_proc_hides_holds_its_lease_until_it_expires(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it does those of other users with hidepid."""
    read = Path.read_text

    def read_text(path: Path, **options: Any) -> str:
        if path.name == "stat":
            raise FileNotFoundError(path)
        return read(path, **options)

    def kill(pid: int, _: int) -> None:
        raise PermissionError(pid)

    theirs = this_process("theirs", datetime.now(UTC), timedelta(minutes=1))
    monkeypatch.setattr(Path, "read_text", read_text)
    monkeypatch.setattr(os, "kill", kill)
    store.put(lease_key("m"), theirs.model_dump_json().encode())
    with pytest.raises(LeaseHeld, match="run theirs"):
        check_free(store, "m")
    past = theirs.model_copy(update={"expires": theirs.since - timedelta(minutes=1)})
    store.put(lease_key("m"), past.model_dump_json().encode())
    check_free(store, "m")


async def test_a_lease_from_elsewhere_counts_until_it_expires(store: FolderStore) -> None:
    begun = datetime.now(UTC)
    elsewhere(store, begun)
    with pytest.raises(LeaseHeld, match="run theirs"):
        check_free(store, "m")
    refused: list[dict[str, Any]] = [
        {"run": "mine", "one_run": True},
        {"run": "theirs"},
        {"run": "mine", "now": lambda: begun + timedelta(seconds=61)},
    ]
    for options in refused:
        with pytest.raises(LeaseHeld, match="run theirs"):
            async with leased(store, "m", **options):
                raise AssertionError
    left = read_lease(store, "m")
    async with leased(store, "m", "theirs", one_run=True) as lease:
        assert left and lease.former == left
        await lease.check()
    check_free(store, "m")
    elsewhere(store, begun)
    async with leased(store, "m", "mine", now=lambda: begun + timedelta(seconds=91)):
        pass


async def test_an_unknown_lease_is_refused_unless_taken_over(store: FolderStore) -> None:
    store.put(lease_key("m"), b'{"future": 1}')
    with pytest.raises(StoreError, match="can't be read as a lease"):
        async with leased(store, "m", "mine"):
            raise AssertionError
    async with leased(store, "m", "mine", take_over=True) as lease:
        await lease.check()
