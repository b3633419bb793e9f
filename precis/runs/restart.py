"""Going back to an earlier step of a run, for good.

On resume a run continues from its own steps in store and trainer beyond the ledger
(`precis.training.resume`). So the ledger is written first, and names another run, to which no
later checkpoint belongs. Before that one write the old run can be resumed, and after it the
restarted one:

    ledger                                  the restarted run, from here on
    pointer                                 the same
    later checkpoints, trajectories         leftovers; nothing reads them
"""

import asyncio

from precis.errors import ConfigError, CorruptCheckpoint
from precis.records.ledger import Ledger, ledger_key, load_ledger, write_ledger
from precis.records.manifests import checkpoints_key
from precis.records.rollout import Split
from precis.records.trajectories import trajectories_key, trajectory_steps
from precis.runs.checkpoints import (
    committed_steps,
    complete_manifest,
    describe_steps,
    repair_pointer,
    verify,
)
from precis.runs.lease import check_lease, leased
from precis.runs.retention import keys_by_step, remove
from precis.store import Store


async def restart(store: Store, model: str, step: int) -> Ledger:
    """Take a run back to `step` and forget the later steps, but not their cost.

    If interrupted, it leaves a run that can be resumed, and can be repeated. Raises ConfigError
    where the run never reached the step, LeaseHeld where a live run has the model, and
    CorruptCheckpoint, with nothing changed, where that checkpoint is not whole.
    """
    load_reached(store, model, step)  # a wrong name gets no lease
    remedy = "Stop it first: a run that is at work can't be taken back."
    async with leased(store, model, f"restart at step {step}", remedy=remedy) as lease:
        blob = await asyncio.to_thread(store.get, ledger_key(model))
        ledger = await asyncio.to_thread(load_reached, store, model, step)
        await asyncio.to_thread(_verify, store, ledger, step)
        await lease.check()
        restarted = ledger.restart(step)
        version = blob.version if blob else None
        await asyncio.to_thread(write_ledger, store, restarted, version)
        await asyncio.to_thread(repair_pointer, store, model, step, lease.id)
        await asyncio.to_thread(_sweep, store, model, step, lease.id)
        return restarted


def load_reached(store: Store, model: str, step: int) -> Ledger:
    """Return the ledger of a run that reached a step; a ConfigError says that it never did."""
    ledger = load_ledger(store, model)
    if step > ledger.next_step:
        raise ConfigError(
            f"{ledger.model!r} has only come to step {ledger.next_step}: it can't be restarted at "
            f"step {step}.",
            "Give --step an earlier one.",
        )
    return ledger


def _verify(store: Store, ledger: Ledger, step: int) -> None:
    """Read the whole checkpoint, while the later ones could still replace it."""
    committed = committed_steps(store, ledger.model)
    if step not in committed:
        raise CorruptCheckpoint(
            f"{store.url} holds no checkpoint {step} of {ledger.model!r}; restart at one of "
            f"{describe_steps(committed, step)}."
        )
    digest = ledger.checkpoints.get(step, "")
    checkpoint = complete_manifest(store, ledger.model, step, digest=digest)
    verify(store, checkpoint)
    if checkpoint.config != ledger.config:
        raise CorruptCheckpoint(
            f"Checkpoint {step} of {ledger.model!r} in {store.url} is of a run with other settings."
        )


def _sweep(store: Store, model: str, step: int, lease: str) -> None:
    for later in keys_by_step(store.keys(checkpoints_key(model))):
        if later > step:
            remove(store, model, later, lease)
    # Step k, which trains adapter k, is repeated; the validation of adapter k stays.
    stale: list[tuple[Split, int]] = [("train", step), ("validation", step + 1)]
    keys = []
    for split, since in stale:
        for done in trajectory_steps(store, model, split):
            if done >= since:
                keys.append(trajectories_key(model, split, done))
    check_lease(store, model, lease)
    store.delete_keys(keys)
