"""The training flow: sample, score, filter, train, commit, log; validate now and then."""

from prefect import flow
from prefect.runtime import flow_run

from flows.benchmark import benchmark
from precis.config import BenchmarkConfig, TrainConfig
from precis.run import Run
from tasks.artifacts import Board, log_step, log_validation, show_step, shown
from tasks.benchmark import BenchmarkReport
from tasks.checkpoints import commit_step, sweep, validate
from tasks.cluster import services
from tasks.documents import load_documents
from tasks.model import restore_model
from tasks.preflight import foretell, preflight
from tasks.rollouts import gather_or_pause
from tasks.training import train_step


@flow(name="train", flow_run_name="train {config.model} to step {config.steps}")
async def train(config: TrainConfig) -> BenchmarkReport | None:
    """Train a summarizer, from wherever its last commit left it, and benchmark it.

    Returns the benchmark's report, or None where `config.benchmark` is off.
    """
    corpus = await load_documents(config)
    async with services(config) as up:
        run = Run(config, corpus, up)
        await preflight(run)
        async with run.holding(f"{config.model} ({flow_run.id})"):
            await restore_model(run)
            await foretell(run)
            async with shown(run) as board:
                await validate_if_due(run)
                for step in range(run.ledger.next_step, config.steps):
                    await take_step(run, step, board)
        return await benchmark(BenchmarkConfig.of(config)) if config.benchmark else None


async def take_step(run: Run, step: int, board: Board) -> None:
    """One step of training, from its rollouts to its place in the ledger."""
    run.check_budget()
    gathered = await gather_or_pause(run, step)
    trained = await train_step(run, step, gathered)
    await commit_step(run, step, gathered, trained)
    await log_step(run, step, gathered)
    await validate_if_due(run)
    await show_step(run, gathered, board)


async def validate_if_due(run: Run) -> None:
    """Validate the newest adapter every so many steps and at the end, once."""
    at, config = run.ledger.next_step, run.config
    known = any(validation.step == at for validation in run.ledger.validations)
    if not known and (at % config.validate_every == 0 or at >= config.steps):
        run.check_budget()
        await validate(run)
        await log_validation(run)
        await sweep(run)
