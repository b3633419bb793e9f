"""The model: registered with its trainer, at the step that ledger, store and trainer agree on.

Training, upload and ledger are three writes in three places, in this order, and a process may die
between any two of them. So on resume each place may know of a step that the next one does not:

    trainer         store           ledger         then
    at L + 1        at L            at L           commit L + 1: it is trained, not uploaded
    any             at L + 1        at L           the manifest has the record: write the ledger
    at L            L damaged       at L           upload L again
    behind, gone    at L            at L           restore L
    of another run  at L            at L           restore L
    behind, gone    L damaged       at L           go back to the newest whole one, restore that
    any             beyond L + 1    at L           refuse: an older ledger was brought back
    any             nothing         nothing        begin

A step that is trained is never trained again unless its weights are lost everywhere.
"""

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from shlex import quote
from typing import Literal

from precis.config import RunConfig
from precis.errors import ConfigError, CorruptCheckpoint, StoreError, UnusableRun
from precis.models.record import training_record, write_record
from precis.records.ledger import Ledger, StepRecord, ledger_key
from precis.records.manifests import Checkpoint, files_digest, pointer_key
from precis.runs.checkpoints import complete_around, named_step, repair_pointer
from precis.runs.shortcomings import nothing_to_train
from precis.runs.trained_on import keep_trained_on
from precis.store import Store
from precis.trainer.protocol import TrainedStep, TrainerState
from precis.training.fork import begin_from_origin
from precis.training.run import PROJECT, Run, work_folder
from precis.training.stages import as_trained, commit_step, log_step, upload_kept

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ResumePlan:
    """The way in which a run continues.

    Attributes:
        ledger: the ledger to continue from, before the steps in `ahead` are committed.
        trainer: `keep` its model, `restore` the ledger's checkpoint, or `begin` the model.
        upload: whether the trainer's copy of the ledger's checkpoint goes to the store (again).
        ahead: the steps that the trainer has trained beyond the ledger, in order.
    """

    ledger: Ledger
    trainer: Literal["keep", "restore", "begin"]
    upload: bool = False
    ahead: tuple[TrainedStep, ...] = ()


async def resume(
    run: Run,
    commit: Callable[[Run, StepRecord], Awaitable[None]] = commit_step,
    log: Callable[[Run, int, None], Awaitable[None]] = log_step,
) -> None:
    """Continue from the last trained step, wherever it is kept, and register the model.

    A new model begins with its ledger, then its untrained start as checkpoint 0, or a copy of
    another run's. Steps that an earlier process trained or did not log are committed and logged.
    Raises ConfigError for other settings, CorruptCheckpoint where no checkpoint is whole, and
    UnusableRun for an older ledger than the run's checkpoints.
    """
    await run.read_ledger()
    await begin_from_origin(run)
    run.found_at = run.ledger.next_step
    logged = _repair_art_files(run.config)
    # A killed process may not have logged its last step; another machine's log is not known.
    if run.ledger.steps and logged != run.found_at - 1:
        run.found_at -= 1
    environment = run.environment
    await asyncio.to_thread(keep_trained_on, run.store, run.ledger, environment.learned)
    step = await asyncio.to_thread(
        upload_kept, run.store, run.ledger, run.kept_folder, run.lease.id
    )
    if step:
        _log.info("Uploaded the checkpoint of step %d, which was kept here.", step)
    plan = await _with_trainer(run)
    await _bring_stale_adapter(run, plan)
    sizes = (len(environment.scenarios("train")), len(environment.scenarios("validation")))
    training = training_record(run.config, environment.identity.get("model", ""), sizes)
    await asyncio.to_thread(write_record, run.store, run.name, training)
    # Only a trainer that agrees with the ledger is given the model.
    await run.model.register(run.trainer.client)
    if plan.upload:  # the checkpoint of the ledger's step, which the store lacks
        at = run.ledger.next_step
        record = run.ledger.steps[-1] if at else None
        checkpoint = await run.trainer.client.commit(run.model, at, run.stored_model, record)
        if run.ledger.checkpoints.get(at) != checkpoint.digest:
            await run.write_ledger(run.ledger.add_digest(at, checkpoint.digest))
    # Steps that an earlier process had trained when it died: committed, not repeated.
    for trained in plan.ahead:
        note = StepRecord.model_validate(trained.note)
        await commit(run, as_trained(note, trained.digest, trained.result["metrics"]))
    former = run.lease.former
    if former is not None:  # a killed process, which has left its machine up
        booked_until = max(run.ledger.charged_at, former.since.timestamp())
        run.trainer.meter.count_before(time.time() - booked_until)
    # The same, and those that it had committed, but not logged or noted in the ledger.
    for step in range(run.found_at, run.ledger.next_step):
        await log(run, step, None)
    idle = nothing_to_train(run.ledger, run.config.steps, run.store.url)
    if idle:
        _log.warning("%s", idle)
    elif run.next_step:
        _log.info("Continues from step %d.", run.next_step)
    try:
        await asyncio.to_thread(run.store.clean)
    except StoreError as error:  # a key for a run's own objects may not be enough to list these
        _log.warning("What killed writers left in the store was not removed: %s", error)


def _repair_art_files(config: RunConfig) -> int | None:
    """Drop the half-written ends of ART's files that a killed process left, which are not atomic;
    return the step that was last logged there.

    `state.json` only sums up `history.jsonl`; ART begins a new one.
    """
    folder = work_folder(config) / "art" / PROJECT / "models" / config.model
    if (state := folder / "state.json").exists():
        try:
            json.loads(state.read_bytes())
        except ValueError:
            state.unlink()
    if (history := folder / "history.jsonl").exists():
        whole, newline, torn = history.read_bytes().rpartition(b"\n")
        if torn:
            history.write_bytes(whole + newline)
        for line in reversed(whole.splitlines()):
            if b'"train/' in line:
                return int(json.loads(line)["step"])
    return None


async def _with_trainer(run: Run) -> ResumePlan:
    """Bring the trainer to the ledger's step; both go back together where they must."""
    damaged: set[int] = set()
    client = run.trainer.client
    while True:
        ledger = run.ledger
        whole = await asyncio.to_thread(
            complete_around, run.store, run.name, ledger.next_step, damaged, ledger.checkpoints
        )
        if any(one.config != run.identity for one in whole.values()):
            raise ConfigError(
                f"{run.store.url} holds checkpoints of {run.name!r} that are of a run with other "
                "settings.",
                "Train under another model name, or delete them.",
            )
        plan = reconcile(ledger, whole, await client.state(run.model))
        at = plan.ledger.next_step
        await asyncio.to_thread(_refuse_older_ledger, run.store, ledger, whole, at)
        if at < ledger.next_step:
            _log.warning(
                "No checkpoint of step %d is whole: the run goes back to step %d.",
                ledger.next_step,
                at,
            )
        try:
            if plan.trainer == "begin":
                await client.begin(run.model, plan.ledger.run_id)
            elif plan.trainer == "restore":
                digest = plan.ledger.checkpoints.get(at, "")
                await client.restore(run.model, at, run.stored_model, digest)
        except CorruptCheckpoint as error:
            if at == 0:
                raise
            _log.warning("%s The checkpoint before it is used.", error)
            damaged.add(at)
            continue
        if not plan.upload:  # which moves the pointer, too
            await asyncio.to_thread(repair_pointer, run.store, run.name, at, run.lease.id)
        is_recorded = at + len(plan.ahead) > ledger.next_step
        await run.write_ledger(plan.ledger.settle(is_recorded=is_recorded))
        return plan


def _refuse_older_ledger(
    store: Store, ledger: Ledger, whole: Mapping[int, Checkpoint], at: int
) -> None:
    """Raise UnusableRun if the pointer names a checkpoint of the run beyond the ledger, which was
    brought back from a backup: it would be written over."""
    newest = named_step(store.get(pointer_key(ledger.model)))
    if newest is None or newest <= max(at, ledger.next_step) or newest not in whole:
        return
    if whole[newest].run == ledger.run_id:
        key = f"{store.url}/{ledger_key(ledger.model)}"
        raise UnusableRun(
            f"{key} is older than the run's checkpoints: it ends with step {ledger.next_step}, and "
            f"they with step {newest}.",
            "Bring a newer one back, or delete it and rebuild it with "
            f"`precis runs repair {ledger.model} --store {quote(store.url)}`.",
        )


async def _bring_stale_adapter(run: Run, plan: ResumePlan) -> None:
    """Have the trainer serve the adapter that the next step is sampled from, if it is an older one.

    So the step is sampled from the same adapter as in a run without interruption. Where no whole
    checkpoint of that adapter is left, the step is sampled from its own.
    """
    run.oldest_adapter = run.first_adapter
    at = run.ledger.next_step
    adapter = run.adapter_for(at)
    # A trainer that is ahead continues from the ledger's adapter, which it holds.
    if adapter >= at or plan.ahead:
        return
    digest = run.ledger.checkpoints.get(adapter, "")
    client = run.trainer.client
    held = (await client.state(run.model)).checkpoints
    if adapter in held and files_digest(held[adapter]) == digest:
        return
    try:
        await client.fetch(run.model, adapter, run.stored_model, digest)
    except CorruptCheckpoint as error:
        _log.warning("%s Step %d is sampled from its own adapter.", error, at)
        run.oldest_adapter = at


def reconcile(ledger: Ledger, whole: Mapping[int, Checkpoint], trainer: TrainerState) -> ResumePlan:
    """Decide where a run continues.

    `whole` are the manifests of the store's whole checkpoints from the ledger's step on, and of the
    newest before it. A CorruptCheckpoint says that no checkpoint of the run is whole anywhere.
    """
    # Steps whose checkpoints were committed, but whose ledger was not written any more.
    while (checkpoint := whole.get(ledger.next_step + 1)) is not None:
        record = checkpoint.record
        if record is None or record.step != ledger.next_step or checkpoint.run != ledger.run_id:
            break
        ledger = ledger.advance(record, checkpoint.digest)
    at = ledger.next_step
    if at not in whole and not _holds(trainer, ledger):
        earlier = [step for step in whole if step < at]
        if not earlier and at == 0:
            return ResumePlan(ledger, "begin", upload=True)
        if not earlier:
            raise CorruptCheckpoint(
                f"No checkpoint of {ledger.model!r} up to step {at} is whole.",
                "Bring one back from a backup, or train under another model name.",
            )
        at = max(earlier)
        ledger = ledger.rewind(at)
    if not _holds(trainer, ledger, whole.get(at)):
        return ResumePlan(ledger, "restore")
    ahead = tuple(trainer.trained[step] for step in range(at, max(trainer.checkpoints)))
    return ResumePlan(ledger, "keep", upload=at not in whole, ahead=ahead)


def _holds(trainer: TrainerState, ledger: Ledger, as_in: Checkpoint | None = None) -> bool:
    """Return whether the trainer can continue from the ledger's checkpoint, or from a later one of
    its own. `as_in` is the store's manifest of that checkpoint, which must name the same files."""
    at = ledger.next_step
    newest = max(trainer.checkpoints, default=-1)
    files = trainer.checkpoints.get(at)
    return (
        trainer.run == ledger.run_id
        and files is not None
        and (as_in is None or files == as_in.files)
        and files_digest(files) == ledger.checkpoints.get(at, files_digest(files))
        and all(step in trainer.trained for step in range(at, newest))
    )
