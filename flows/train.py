"""The training flow: sample, score, filter, train, commit, log; validate now and then."""

from prefect import flow
from prefect.runtime import flow_run

from flows.benchmark import benchmark
from precis.config import BenchmarkConfig, TrainConfig
from precis.training.run import Run
from tasks.artifacts import log_validation, report_progress
from tasks.benchmark import BenchmarkReport
from tasks.board import ProgressReporter
from tasks.checkpoints import sweep, validate, wait_for_commit
from tasks.cluster import services, training_at
from tasks.committing import commit_beside
from tasks.documents import load_documents
from tasks.ending import finish_commit_on_exit, stop_at_budget
from tasks.events import announce_trained
from tasks.model import recovering, resume
from tasks.parameters import named, takes_settings
from tasks.preflight import announce_cost, preflight
from tasks.rollouts import gather_or_pause
from tasks.secrets import adopt_secrets
from tasks.states import completed, says_why_it_stops
from tasks.training import train_step


@flow(name="train", flow_run_name=named("train {model} to step {steps}"), validate_parameters=False)
@says_why_it_stops
@takes_settings(TrainConfig)
async def train(config: TrainConfig) -> BenchmarkReport | None:
    """Train a summarizer, from wherever its last commit left it, and benchmark it.

    Returns the benchmark's report, or None where `config.benchmark` is off.
    """
    await adopt_secrets()
    corpus = await load_documents(config)
    async with services(config) as up:
        run = Run(config, corpus, up)
        await preflight(run)
        async with run.holding(f"{config.model} ({flow_run.id})"), training_at(run):
            async with recovering(run):
                await resume(run)
            await announce_cost(run)
            async with report_progress(run) as board, finish_commit_on_exit(run):
                while not run.is_done:
                    async with recovering(run):
                        await go_on(run, board)
            if config.benchmark:
                report: BenchmarkReport = await benchmark(**dict(BenchmarkConfig.of(config)))
                return completed(run.ledger, report)
    announce_trained(config)
    return completed(run.ledger, None)


async def go_on(run: Run, board: ProgressReporter) -> None:
    """What comes next: a validation where one is due, and a step of training."""
    await stop_at_budget(run)
    if run.validation_is_due:
        await wait_for_commit(run)
        await validate(run)
        await log_validation(run)
        await sweep(run)
    if run.next_step < run.config.steps:
        await take_step(run, run.next_step, board)


async def take_step(run: Run, step: int, board: ProgressReporter) -> None:
    """One step of training; its checkpoint goes to the store while the next step gathers."""
    gathered = await gather_or_pause(run, step)
    await wait_for_commit(run)
    record = await train_step(run, step, gathered)
    commit_beside(run, record, gathered, board)
