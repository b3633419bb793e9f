"""A new run that begins with another run's checkpoint.

The new run's ledger names the checkpoint before any of its files is copied. So a run that is
interrupted at its start begins with the same checkpoint again, even if the other run has continued.
"""

import asyncio
import logging
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory

from precis.config import FromCheckpoint
from precis.errors import ConfigError, CorruptCheckpoint
from precis.records.ledger import Origin, load_ledger
from precis.records.manifests import Checkpoint, checkpoints_key, steps_in
from precis.runs.checkpoints import (
    commit,
    committed_steps,
    complete_manifest,
    describe_steps,
    restore,
)
from precis.store import Store, open_store
from precis.training.run import Run

_log = logging.getLogger(__name__)


def origin_of(store: Store, wanted: FromCheckpoint) -> Origin:
    """Return the named checkpoint, in the named store or the run's own; a ConfigError says that
    there is none."""
    source = open_store(wanted.store) if wanted.store else store
    ledger = load_ledger(source, wanted.model)
    sizes = source.sizes(checkpoints_key(wanted.model))
    committed = [step for step in steps_in(sizes) if step <= ledger.next_step]
    for step in reversed(committed):
        if wanted.step not in (None, step):
            continue
        digest = ledger.checkpoints.get(step, "")
        try:
            checkpoint = complete_manifest(source, wanted.model, step, sizes, digest)
        except CorruptCheckpoint as error:
            _log.warning("%s", error)
            continue
        return Origin(
            model=wanted.model,
            step=step,
            store=source.url,
            files=checkpoint.digest,
            corpus=ledger.corpus,
        )
    which = "" if wanted.step is None else f" {wanted.step}"
    there = describe_steps(committed, wanted.step or ledger.next_step)
    raise ConfigError(
        f"from_checkpoint: {source.url} holds no whole checkpoint{which} of {wanted.model!r} "
        f"(there: {there}).",
        f"Name one that is whole; `precis runs show {wanted.model} --store {quote(source.url)}` "
        "says which are.",
    )


def fork(store: Store, model: str, origin: Origin, config: str, lease: str = "") -> Checkpoint:
    """Copy the origin, verified, into the store as checkpoint 0 of a model, unless it is there.
    Raises CorruptCheckpoint where the origin is damaged, gone, or was replaced."""
    source = store if origin.store == store.url else open_store(origin.store)
    with TemporaryDirectory() as temporary:
        folder = Path(temporary) / "checkpoint"
        copied = restore(source, origin.model, origin.step, folder)
        if copied.digest != origin.files:
            raise CorruptCheckpoint(
                f"Checkpoint {origin.step} of {origin.model!r} in {origin.store} was replaced "
                f"since {model!r} was begun with it.",
                "Train under another model name to begin with the new one.",
            )
        return commit(store, model, 0, folder, config, lease=lease)


async def begin_from_origin(run: Run) -> None:
    """Give a new run the checkpoint 0 of its settings, once its ledger is read. Does nothing for a
    run that has its checkpoint 0, or begins untrained."""
    wanted = run.config.from_checkpoint
    ledger = run.ledger
    if wanted is None:
        return
    if await asyncio.to_thread(committed_steps, run.store, run.name):
        return
    if ledger.origin is None:
        origin = await asyncio.to_thread(origin_of, run.store, wanted)
        await run.write_ledger(ledger.begin_from(origin))
    assert run.ledger.origin is not None
    if run.ledger.origin.corpus != ledger.corpus:
        nouns = run.environment.nouns
        _log.warning(
            "%r was trained on other %s or another split: some that are held out here may be among "
            "them, and its %s here may flatter it.",
            wanted.model,
            nouns.scenarios,
            nouns.reward,
        )
    await asyncio.to_thread(
        fork, run.store, run.name, run.ledger.origin, run.identity, run.lease.id
    )
