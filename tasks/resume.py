"""The model: registered with its trainer, at the step that ledger, store and trainer agree on."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from prefect import task
from prefect.logging import get_run_logger

from precis.environments.summaries.environment import Summaries
from precis.errors import ConfigError, CorruptCheckpoint, TrainerLost
from precis.models.record import training_record, write_record
from precis.records.manifests import files_digest
from precis.run.checkpoints import complete_around, repair_pointer
from precis.run.shortcomings import nothing_to_train
from precis.run.trained_on import keep_trained_on
from precis.run.unsent import upload_kept
from precis.training.fork import begin_from_origin
from precis.training.reconcile import ResumePlan, reconcile
from precis.training.run import Run, repair_art_files
from precis.training.steps import as_remembered
from tasks.checkpoints import commit_step, log_step
from tasks.policy import RETRIED
from tasks.states import show_running_as


@task(name="resume", task_run_name="resume {run.name}", **RETRIED)
async def resume(run: Run) -> None:
    """Go on from the last step that is trained, wherever it has got to, and register the model.

    A new model begins with its ledger, then its untrained start as checkpoint 0, or a copy of
    another run's checkpoint.

    Raises:
        ConfigError: the model was trained with other settings.
        CorruptCheckpoint: the store holds checkpoints of the model, and none is whole.
    """
    await run.read_ledger()
    await begin_from_origin(run, get_run_logger().warning)
    if isinstance(run.environment, Summaries):
        corpus = run.environment.corpus
        await asyncio.to_thread(keep_trained_on, run.store, run.ledger, corpus)
    step = await asyncio.to_thread(
        upload_kept, run.store, run.ledger, run.kept_folder, run.lease.id
    )
    if step:
        get_run_logger().info("Uploaded the checkpoint of step %d, which was kept here.", step)
    plan = await _with_trainer(run)
    await _bring_stale_adapter(run, plan)
    training = training_record(run.config, run.environment.identity.get("model", ""))
    await asyncio.to_thread(write_record, run.store, run.name, training)
    repair_art_files(run.config)
    # Only a trainer that agrees with the ledger is given the model.
    await run.model.register(run.trainer.client)
    if plan.upload:
        await _upload(run, run.ledger.next_step)
    # Steps that were trained when the process before this one died: committed, not done again.
    for trained in plan.ahead:
        await commit_step(run, as_remembered(trained))
        await log_step(run, run.ledger.next_step - 1)
    idle = nothing_to_train(run.ledger, run.config.steps)
    if idle:
        get_run_logger().warning("%s", idle)
    elif run.next_step:
        get_run_logger().info("Continues from step %d.", run.next_step)
    await asyncio.to_thread(run.store.clean)


@asynccontextmanager
async def recovering(run: Run) -> AsyncIterator[None]:
    """Bring a trainer that is lost in the block up again; what was under way is repeated.

    Raises:
        TrainerLost: it was lost `recoveries_max` times since a step was last committed.
    """
    try:
        yield
    except TrainerLost as error:
        await _recover(run, error)


async def _recover(run: Run, error: TrainerLost) -> None:
    logger = get_run_logger()
    trainer = run.trainer
    while trainer.count_loss(run.config.recoveries_max):
        logger.warning("%s It is brought up again (%d).", error, trainer.losses)
        await show_running_as("Preempted", str(error))
        try:
            await run.ahead.cancel()
            await run.commits.abandon()
            await show_running_as("Recovering", f"It is brought up again ({trainer.losses}).")
            await trainer.bring_up()
            await resume(run)
            return await show_running_as("Running", f"Goes on from step {run.next_step}.")
        except TrainerLost as again:
            error = again
    raise error


async def _with_trainer(run: Run) -> ResumePlan:
    """Have the trainer hold what the ledger says; both go back together where they must."""
    damaged: set[int] = set()
    while True:
        plan = await _plan(run, damaged)
        try:
            await _follow(run, plan)
        except CorruptCheckpoint as error:
            if plan.ledger.next_step == 0:
                raise
            get_run_logger().warning("%s The checkpoint before it is used.", error)
            damaged.add(plan.ledger.next_step)
            continue
        await run.write_ledger(plan.ledger)
        if not plan.upload:  # which moves the pointer, too
            at = run.ledger.next_step
            await asyncio.to_thread(repair_pointer, run.store, run.name, at, run.lease.id)
        return plan


async def _bring_stale_adapter(run: Run, plan: ResumePlan) -> None:
    """Have the trainer serve the adapter that the next step is sampled from, if it is an older one.

    So the step is sampled from the same adapter as if the run had not been cut off. Where no whole
    checkpoint of it is left, the step is sampled from its own.
    """
    run.oldest_adapter = run.first_adapter
    at = run.ledger.next_step
    adapter = run.adapter_for(at)
    # A trainer that is ahead goes on from the ledger's adapter, which it holds.
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
        get_run_logger().warning("%s Step %d is sampled from its own adapter.", error, at)
        run.oldest_adapter = at


async def _follow(run: Run, plan: ResumePlan) -> None:
    if plan.trainer == "begin":
        await run.trainer.client.begin(run.model, plan.ledger.run_id)
    if plan.trainer == "restore":
        at = plan.ledger.next_step
        digest = plan.ledger.checkpoints.get(at, "")
        await run.trainer.client.restore(run.model, at, run.stored_model, digest)


async def _plan(run: Run, damaged: set[int]) -> ResumePlan:
    logger = get_run_logger()
    at = run.ledger.next_step
    passed_over = frozenset(damaged)
    digests = run.ledger.checkpoints
    whole = await asyncio.to_thread(
        complete_around, run.store, run.name, at, logger.warning, passed_over, digests
    )
    if any(one.config != run.identity for one in whole.values()):
        raise ConfigError(
            f"{run.store.url} holds checkpoints of {run.name!r} that are of a run with other "
            "settings.",
            "Train under another model name, or delete them.",
        )
    return reconcile(run.ledger, whole, await run.trainer.client.state(run.model))


async def _upload(run: Run, step: int) -> None:
    """Commit the checkpoint of the ledger's step, which the store lacks."""
    record = run.ledger.steps[-1] if step else None
    client = run.trainer.client
    checkpoint = await client.commit(run.model, step, run.stored_model, record)
    if run.ledger.checkpoints.get(step) != checkpoint.digest:
        await run.write_ledger(run.ledger.add_digest(step, checkpoint.digest))
