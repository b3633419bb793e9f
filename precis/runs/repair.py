"""Rebuilding a run's ledger, where it is lost or damaged, from its checkpoints' manifests.

Each manifest holds the record of the step that made it, and names the run. The rest of the ledger
is lost: validations, the records of steps whose checkpoints were deleted, and spending beside the
records that remain.

The replaced ledger is kept beside the new one, and an intact one is never replaced.
"""

import asyncio
import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from precis.errors import ConfigError, CorruptCheckpoint, StoreError, UnusableRun
from precis.records.ledger import Ledger, find_ledger, ledger_key, no_ledger, write_ledger
from precis.records.manifests import Checkpoint, checkpoints_key, pointer_key, steps_in
from precis.runs.checkpoints import (
    committed_steps,
    complete_manifest,
    manifest,
    named_step,
    repair_pointer,
    verify,
)
from precis.runs.lease import leased, read_lease
from precis.store import Store

_UNKNOWN_FIELD = "extra_forbidden"


@dataclass(frozen=True)
class Repaired:
    """A ledger that was rebuilt.

    Attributes:
        damage: sentences on the checkpoints that can't be used.
        beyond: the steps of checkpoints that are newer than the run's newest: leftovers.
        kept: the key of a copy of the damaged ledger; empty where the ledger was lost.
    """

    ledger: Ledger
    damage: tuple[str, ...]
    beyond: tuple[int, ...]
    kept: str


def refuse_lost_ledger(store: Store, model: str) -> None:
    """Refuse a model that has checkpoints and no ledger: an UnusableRun says that it was lost."""
    if committed_steps(store, model):
        raise no_ledger(store, model)


async def repair_lease(store: Store, model: str) -> bool:
    """Replace a lease that can't be read; False if it can be, or the ledger needs repair too."""
    try:
        if await asyncio.to_thread(find_ledger, store, model) is None:
            return False
    except UnusableRun:
        return False
    try:
        await asyncio.to_thread(read_lease, store, model)
    except StoreError:
        async with leased(store, model, "repair", take_over=True):
            return True
    return False


async def repair(store: Store, model: str, take_over: bool = False) -> Repaired:
    """Rebuild a run's ledger from its checkpoints; if interrupted, it can be repeated.

    Raises ConfigError where the ledger is intact or of a newer Précis, LeaseHeld where a live run
    works on the model, CorruptCheckpoint where no checkpoint is whole.
    """
    await asyncio.to_thread(_refuse_intact, store, model)  # a wrong name gets no lease
    async with leased(store, model, "repair", take_over=take_over) as lease:
        present = await asyncio.to_thread(store.get, ledger_key(model))
        await asyncio.to_thread(_refuse_intact, store, model)
        manifests, damage = await asyncio.to_thread(_read_manifests, store, model)
        pointer = named_step(await asyncio.to_thread(store.get, pointer_key(model)))
        beyond = [step for step in manifests if pointer is not None and step > pointer]
        whole = [step for step in manifests if step not in damage and step not in beyond]
        if not whole:
            raise CorruptCheckpoint(
                f"No checkpoint of {model!r} in {store.url} is whole, so its ledger can't be "
                f"rebuilt. {' '.join(damage.values())}".rstrip(),
                "Bring one back from a backup, or train under another model name.",
            )
        ledger = _rebuild(manifests, damage, max(whole))
        await lease.check()
        kept = ""
        if present:
            kept = f"{model}/damaged-ledger-{hashlib.sha256(present.data).hexdigest()[:8]}.json"
            await asyncio.to_thread(store.put, kept, present.data)
        version = present.version if present else None
        await asyncio.to_thread(write_ledger, store, ledger, version)
        await asyncio.to_thread(repair_pointer, store, model, ledger.next_step, lease.id)
    return Repaired(ledger, tuple(damage.values()), tuple(beyond), kept)


def _refuse_intact(store: Store, model: str) -> None:
    """Check that a run's ledger is damaged, or lost with checkpoints left."""
    try:
        found = find_ledger(store, model)
    except UnusableRun as error:
        cause = error.__cause__
        # Its only problems are fields that this version does not know.
        if isinstance(cause, ValidationError) and all(
            problem["type"] == _UNKNOWN_FIELD for problem in cause.errors()
        ):
            raise ConfigError(
                f"The ledger of {model!r} was written by a newer Précis: update this one."
            ) from error
        return
    if found:
        raise ConfigError(f"The ledger of {model!r} is intact: there is nothing to repair.")
    if not committed_steps(store, model):
        raise no_ledger(store, model)


def _read_manifests(store: Store, model: str) -> tuple[dict[int, Checkpoint], dict[int, str]]:
    """Read every manifest and verify its checkpoint; return the readable manifests, and the damage
    of checkpoints, both by step."""
    sizes = store.sizes(checkpoints_key(model))
    manifests: dict[int, Checkpoint] = {}
    damage: dict[int, str] = {}
    for step in steps_in(sizes):
        try:
            found = manifest(store, model, step)
            if found is None:  # deleted since it was listed
                continue
            manifests[step] = found
            verify(store, complete_manifest(store, model, step, sizes))
        except CorruptCheckpoint as error:
            damage[step] = str(error)
    return manifests, damage


def _rebuild(manifests: Mapping[int, Checkpoint], damage: Mapping[int, str], at: int) -> Ledger:
    """Return the ledger at a checkpoint, from it and from those before it, by step. The corpus is
    unknown until the run is started again, and so is the spend beside their records."""
    newest = manifests[at]
    records = []
    checkpoints = {}
    usd = 0.0
    other_usd = 0.0
    for step, checkpoint in manifests.items():
        if step > at or checkpoint.config != newest.config:
            continue
        # A damaged file takes nothing from the record of its step.
        record = checkpoint.record
        if record and record.step == step - 1:
            records.append(record)
            usd += record.usd
            if record.warm_start:
                other_usd += record.warm_start.usd
        if step not in damage:
            checkpoints[step] = checkpoint.digest
    return Ledger(
        model=newest.model,
        config=newest.config,
        corpus="",
        next_step=at,
        steps=tuple(records),
        checkpoints=checkpoints,
        run_id=newest.run or secrets.token_hex(4),
        usd=usd + other_usd,
        other_usd=other_usd,
        charged_at=max((one.described_at for one in records), default=0.0),
        rebuilt_at=at,
    )
