"""The training flow: sample, score, filter, train, commit, log; validate now and then."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from prefect import flow
from prefect.logging import get_run_logger

from flows.benchmark import benchmark_with
from precis.config import BenchmarkConfig, TrainConfig
from precis.environments.summaries.environment import Summaries
from precis.errors import StoreError
from precis.processes.child import Launch, child_service
from precis.processes.signals import cancel_on_sigterm
from precis.records.ledger import StepRecord
from precis.report.training_report import progress_line
from precis.run.shortcomings import nothing_to_train
from precis.training.batch import TrainingBatch, filter_groups
from precis.training.run import Run
from precis.training.view import training_view
from tasks.benchmark_report import BenchmarkReport
from tasks.checkpoints import (
    commit_step,
    delete_old_checkpoints,
    keep_here,
    log_step,
    log_validation,
)
from tasks.parameters import named, takes_settings
from tasks.preflight import announce_cost, preflight
from tasks.resume import recovering, resume
from tasks.rollouts import sample_ahead, sample_and_score, validate, wait_for_sampling
from tasks.secrets import adopt_secrets
from tasks.services import open_environment, open_run
from tasks.states import completed, says_why_it_stops
from tasks.training import describe_step, train_step
from tasks.ui import ProgressReporter, announce_trained, report_progress
from tasks.warm_start import BATCH, collect_summaries, imitate, measure_variance, open_journal

COMMIT_GRACE_S = 20.0
"""How long a run that is told to end waits for its commit; Prefect kills it after 30 s."""


@flow(name="train", flow_run_name=named("train {model} to step {steps}"), validate_parameters=False)
@says_why_it_stops
@takes_settings(TrainConfig)
async def train(config: TrainConfig) -> BenchmarkReport | None:
    """Train a summarizer, from wherever its last commit left it, and benchmark it.

    Returns the benchmark's report, or None where `config.benchmark` is off.
    """
    return await run_training(config)


async def run_training(
    config: TrainConfig, launch: Launch = child_service
) -> BenchmarkReport | None:
    """What the flow does, inside a flow run.

    Args:
        launch: starts the trainer, where it is local, the judge's stand-in and the baselines.
    """
    await adopt_secrets()
    async with open_environment(config, launch) as environment:
        await preflight(config, environment)
        async with open_run(config, environment, launch) as run:
            async with recovering(run):
                await resume(run)
            idle = nothing_to_train(run.ledger, config.steps)
            await announce_cost(run)
            await train_to_the_end(run)
            if config.benchmark and isinstance(environment, Summaries):
                benchmark = benchmark_with(environment.services, run.trainer)
                report: BenchmarkReport = await benchmark(**dict(BenchmarkConfig.of(config)))
                return completed(run.ledger, report, idle)
    if isinstance(environment, Summaries):
        announce_trained(config)
    return completed(run.ledger, None, idle)


async def train_to_the_end(run: Run) -> None:
    """Take step after step until the last one is committed and its adapter is validated."""
    # Left in the other order: the last commit ends first, and can still be shown and logged.
    async with (
        run.log.open(run.config, run.ledger.run_id, run.wandb_folder),
        report_progress(run.name, lambda: training_view(run)) as reporter,
        finish_commit_on_exit(run),
    ):
        while not run.is_done:
            async with recovering(run):
                await go_on(run, reporter)
        await book_what_is_left(run)


async def go_on(run: Run, reporter: ProgressReporter) -> None:
    """What comes next: a validation where one is due, and a step of training."""
    await stop_at_limits(run)
    if run.validation_is_due:
        # A validation goes into the ledger, which a commit writes too; and policy and judge are
        # its own, so that its time and its dollars are.
        await wait_for_commit(run)
        await wait_for_sampling(run)
        validation = await validate(run, run.next_step)
        await log_validation(run, validation)
        await delete_old_checkpoints(run)
    if run.variance_is_due:
        await wait_for_commit(run)
        await measure_variance(run, run.next_step)
    if run.warm_start_is_due:
        await take_warm_start(run, reporter)
    elif run.next_step < run.config.steps and not run.is_done:
        await take_step(run, run.next_step, reporter)


async def take_step(run: Run, step: int, reporter: ProgressReporter) -> None:
    """One step; it is committed and logged while the next one samples.

    With `off_policy_steps` the next one samples while this one is trained, too.
    """
    rollouts = await sample_and_score(run, step)
    batch = filter_groups(rollouts, run.config.rollouts)
    await wait_for_commit(run)
    record = describe_step(run, step, batch)
    # Only now: what it spends is booked with the next step.
    sample_ahead(run, step + 1)
    record = await train_step(run, record, batch)
    # What is timed from here on is the next step's; the commit times itself.
    run.stopwatch.reset()
    run.commits.start(step, commit_and_log(run, record, batch, reporter))


async def take_warm_start(run: Run, reporter: ProgressReporter) -> None:
    """Step 0 by imitation; what is imitated is kept batch by batch as it is collected."""
    journal = await open_journal(run)
    with run.stopwatch.phase("collect"):
        while batch := journal.missing(run.documents_to_summarize)[:BATCH]:
            await stop_at_limits(run)
            await collect_summaries(run, journal, batch)
    record = await imitate(run, journal)
    run.stopwatch.reset()
    run.commits.start(record.step, commit_and_log(run, record, None, reporter))


async def commit_and_log(
    run: Run, record: StepRecord, batch: TrainingBatch | None, reporter: ProgressReporter
) -> None:
    """Commit a step that is trained, and then show it; a warm start has no batch.

    The trainer, which has the files, uploads them; this process only waits for the manifest.

    Raises:
        StoreError: it could not be committed; where the checkpoint is kept is in the message.
    """
    try:
        await commit_step(run, record)
    except StoreError as error:
        raise await keep_here(run, record, error) from error
    await log_step(run, record.step, batch)
    if batch is not None:
        run.log.show_rollouts(batch.rollouts.rows)
    get_run_logger().info("%s", progress_line(training_view(run)))
    reporter.update()


async def wait_for_commit(run: Run) -> None:
    """Wait for the commit of the step before; what that takes counts for the step."""
    with run.stopwatch.phase("wait"):
        await run.commits.wait()


async def stop_at_limits(run: Run) -> None:
    """Stop here if the run has spent its budget, or held its machine for as long as it may.

    Raises:
        BudgetReached: what was spent; everything up to here is committed.
    """
    if run.is_at_limit:
        await book_what_is_left(run)
        raise run.limit_reached()


async def book_what_is_left(run: Run) -> None:
    """Put into the ledger what was paid for a step that is not taken any more, say."""
    await run.ahead.cancel()
    await wait_for_commit(run)
    await run.book_rest()


@asynccontextmanager
async def finish_commit_on_exit(run: Run) -> AsyncIterator[None]:
    """However the block is left, finish the commit that is under way, or give it up in time.

    What is sampled ahead is given up at once: who resumes the run samples it again.

    SIGTERM (a cancelled run, a machine that shuts down) interrupts what the block is at, and is
    passed on to Prefect once the commit has ended, so that the run ends in the state that it
    would have ended in.
    """
    with cancel_on_sigterm():
        try:
            yield
            await wait_for_commit(run)
        finally:
            await run.ahead.cancel()
            await run.commits.finish(COMMIT_GRACE_S, get_run_logger().warning)
