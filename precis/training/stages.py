"""The stages of a step, and of a validation, as plain functions.

gather_rollouts → filter_groups (`batch`) → train_step → commit_step → log_step; and validate.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

from precis.config import RolloutsConfig
from precis.environments.session import Policy
from precis.environments.trajectories import group_of, transcript
from precis.errors import LeaseLost, StoreConflict, StoreError
from precis.processes.kill_points import reached
from precis.records.ledger import StepRecord, Validation
from precis.records.rollout import Rollout, Scenario, Split
from precis.records.trajectories import (
    put_trajectories,
    read_first_validation,
    read_rollouts,
)
from precis.rollouts.draw import draw_batch, draw_spares
from precis.rollouts.filter import refuse_too_many_unscored
from precis.rollouts.sample import adapter_policy, sample_each, sample_groups, sampled
from precis.run.retention import prune
from precis.run.shortcomings import narrowed, parted
from precis.run.unsent import FILES, keep_record
from precis.run.validations import last_gain
from precis.trainer.backend import SERVICE_USD
from precis.training.batch import StepRollouts, TrainingBatch
from precis.training.run import Run
from precis.training.steps import as_trained, step_record, validation_of

_log = logging.getLogger(__name__)


async def gather_rollouts(run: Run, step: int) -> StepRollouts:
    """Sample rollouts of the step's scenarios, from the adapter that is the step's to sample from,
    and have them scored.

    Raises:
        JudgeUnavailable: too many of them went unscored.
    """
    settings = run.config.rollouts
    seed = run.config.seed
    size = settings.groups_per_step
    scenarios = draw_batch(run.drawn, seed, step, size)
    spares = draw_spares(run.drawn, seed, step, size, settings.replacements_max)
    adapter = run.adapter_for(step)
    spent = run.spend
    start = time.perf_counter()
    reached("before sampling", step)
    rows = await sample_scenarios(run, step, adapter, scenarios, settings, spares)
    reached("rollouts scored", step)
    return StepRollouts(rows, adapter, time.perf_counter() - start, run.spend.since(spent))


async def sample_scenarios(
    run: Run,
    step: int,
    adapter: int,
    scenarios: Sequence[Scenario],
    settings: RolloutsConfig,
    spares: Sequence[Scenario] = (),
) -> list[list[Rollout]]:
    """Groups of rollouts of some scenarios, sampled from an adapter to train on."""
    async with _policy(run, adapter) as greedy:
        # W&B's service trains on text, and knows no ids.
        trained = run.config.trainer.kind != "serverless"
        policy = sampled(greedy, run.config.seed, step, settings.temperature, trained)
        return await sample_groups(
            run.recorder, policy, run.environment, scenarios, settings, spares
        )


def describe_step(run: Run, step: int, batch: TrainingBatch) -> StepRecord:
    """The record of a step that is about to be trained; it books what is spent up to here."""
    run.described = step_record(
        step,
        batch,
        groups_added=len(batch.rollouts.rows) - run.config.rollouts.groups_per_step,
        seconds=run.stopwatch.seconds,
        judge=run.unbooked,
        machine_usd=run.trainer.meter.unbooked_usd,
        machine_saved_usd=run.trainer.meter.unbooked_saved_usd,
    )
    return run.described


async def train_step(run: Run, record: StepRecord, batch: TrainingBatch) -> StepRecord:
    """Turn adapter `record.step` into the next; a repeat gets the stored result.

    Its rollouts are in the store before that. The trainer keeps the step's record with its result,
    so that a run that dies before the commit need not sample and judge the step again.
    """
    step = record.step
    rollouts = batch.rollouts
    # Before the training: once a step is trained, it is not sampled again.
    await keep_rollouts(run, "train", step, rollouts.rows, rollouts.adapter)
    reached("before training", step)
    start = time.perf_counter()
    result = await run.trainer.client.train(
        run.model,
        list(map(group_of, batch.groups)),
        step=step,
        run=run.ledger.run_id,
        note=record.model_dump(mode="json"),
        **run.config.trainer.options,
    )
    seconds = time.perf_counter() - start
    reached("step trained", step)
    run.service_usd = result.metrics.get(SERVICE_USD, 0.0)
    return as_trained(record, result.digest, result.metrics, train=seconds)


async def commit_step(run: Run, record: StepRecord) -> None:
    """Put checkpoint `record.step + 1` into the store, then the step into the ledger.

    The trainer, which has the files, uploads them; this process only waits for the manifest.
    """
    start = time.perf_counter()
    await run.lease.check()
    reached("lease renewed", record.step)
    client = run.trainer.client
    checkpoint = await client.commit(run.model, record.step + 1, run.stored_model, record)
    # Where an earlier try has committed it, the record is the one in its manifest.
    record = checkpoint.record or record
    timed = record.model_copy(update={"commit_s": time.perf_counter() - start})
    # The ledger moves only now that the manifest is there: who resumes trusts the ledger.
    await run.write_ledger(run.ledger.advance(timed, checkpoint.digest))
    run.trainer.count_progress()


async def keep_here(run: Run, record: StepRecord, error: StoreError) -> StoreError:
    """Save what can't be uploaded to this machine; returns the error to stop with.

    The next start of the run uploads it.
    """
    if isinstance(error, StoreConflict):
        return error  # the model is another run's now
    folder = run.kept_folder
    await run.trainer.client.save(run.model, record.step + 1, folder / FILES)
    keep_record(folder, record)
    return type(error)(
        f"{error} The checkpoint of step {record.step + 1} is kept in {folder} on this machine, "
        "and goes to the store when the run is started again."
    )


async def log_step(run: Run, step: int, batch: TrainingBatch | None = None) -> None:
    """Append the step to ART's files and to W&B; doing it again appends it again.

    Without its batch, which a process before this one has sampled, its metrics alone.
    """
    await run.log.log_step(run.ledger, step, batch.groups if batch else None)


async def validate(run: Run, step: int) -> Validation:
    """Measure adapter `step` on the held-out scenarios, greedy, and put it in the ledger."""
    start = time.perf_counter()
    settings = run.config.rollouts
    async with _policy(run, step) as policy:
        rollouts = await sample_each(run.recorder, policy, run.environment, run.held_out, settings)
    if run.environment.compares:
        first = await asyncio.to_thread(
            read_first_validation, run.store, run.name, run.held_out, before=step
        )
        rollouts = list(await run.environment.compare(rollouts, first))
    reached("validation scored", step)
    refuse_too_many_unscored(rollouts, settings)
    await _show_validation(run, step, rollouts)
    await keep_rollouts(run, "validation", step, [[one] for one in rollouts], adapter=step)
    validation = validation_of(step, rollouts, time.perf_counter() - start, run.environment)
    gained = last_gain(run.ledger.validations, validation)
    validation = validation.model_copy(update={"last_gain": gained})
    # What was sampled ahead is booked with its step.
    spend = run.unbooked.since(run.ahead.spend)
    await run.write_ledger(run.ledger.add_validation(validation, spend.usd), spend)
    if any(one.judge for one in run.environment.figures) and validation.second is None:
        _log.warning("The second judge failed on all held-out scenarios.")
    for found in (parted(run.ledger), narrowed(run.ledger)):
        if found:
            _log.warning("%s", found)
    return validation


async def log_validation(run: Run, validation: Validation) -> None:
    """Append a validation to ART's files and to W&B."""
    await run.log.log_validation(validation)


async def keep_rollouts(
    run: Run, split: Split, step: int, rows: Sequence[Sequence[Rollout]], adapter: int
) -> None:
    """Put an adapter's rollouts into the store; tell the observers."""
    groups = transcript(rows, run.model.get_inference_name(adapter))
    await asyncio.to_thread(put_trajectories, run.store, run.name, split, step, groups)
    run.log.tell_samples(rows, run.ledger.run_id, split, step, adapter)


async def delete_old_checkpoints(run: Run) -> None:
    """Delete the checkpoints that are not to be kept; what fails is tried again next time."""
    scores = {one.step: one.score.value for one in run.ledger.validations}
    try:
        await asyncio.to_thread(
            prune,
            run.store,
            run.name,
            run.config.retention,
            scores,
            run.ledger.next_step,
            run.lease.id,
            run.ledger.rebuilt_at,
        )
    except LeaseLost:
        raise
    except StoreError as error:
        _log.warning("Old checkpoints could not be deleted: %s", error)


def _policy(run: Run, adapter: int) -> AbstractAsyncContextManager[Policy]:
    name = run.model.get_inference_name(adapter)
    return adapter_policy(run.model.openai_client(), name, adapter, run.config.rollouts)


async def _show_validation(run: Run, step: int, rollouts: Sequence[Rollout]) -> None:
    """Have the report show these rollouts beside the run's first ones."""
    if run.log.seen.first is None and run.ledger.validations:
        first = run.ledger.validations[0].step
        try:
            # What another process saw of it.
            seen = await asyncio.to_thread(
                read_rollouts, run.store, run.name, "validation", first, run.held_out
            )
        except StoreError as error:
            _log.warning("The report compares with no earlier rollout: %s", error)
            seen = []
        run.log.show_validation(first, seen)
    run.log.show_validation(step, rollouts)
