"""The trials of a sweep as runs of a deployment, and their ranking."""

import asyncio
from collections.abc import Sequence

from prefect import get_client, task
from prefect.artifacts import acreate_markdown_artifact
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
    FlowRunFilterTags,
)
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.deployments.flow_runs import arun_deployment
from prefect.exceptions import ObjectNotFound
from prefect.logging import get_run_logger
from prefect.states import Cancelling

from precis.errors import ConfigError, UnusableRun
from precis.records.ledger import load_ledger
from precis.store import open_store
from precis.sweep.config import SweepConfig
from precis.sweep.ranking import TrialResult, rank, result_of
from precis.sweep.report import report_folder, sweep_report, trial_lines, verdict
from precis.sweep.trials import Trial, check_trials, describe, describe_budgets, plan_trials
from tasks.policy import RETRIED
from tasks.ui import TRIAL_TAG, artifact_key

_POLL_S = 2
_LAUNCHER = "flows/managed.py:"
_ALIVE = [
    StateType.SCHEDULED,
    StateType.PENDING,
    StateType.RUNNING,
    StateType.PAUSED,
    StateType.CANCELLING,
]


@task(name="plan trials", task_run_name="plan the trials of {config.name}", **RETRIED)
async def prepare_trials(config: SweepConfig) -> list[Trial]:
    """The trials, each with settings that its deployment can work with.

    Raises:
        ConfigError: there is no such deployment, or a trial has settings that can't work.
    """
    trials = plan_trials(config)
    async with get_client() as client:
        try:
            deployed = await client.read_deployment_by_name(config.deployment)
        except ObjectNotFound as error:
            raise ConfigError(
                f"There is no deployment {config.deployment!r} on this server: name another, or "
                "bring ours to it with `precis up`."
            ) from error
    _refuse_launcher(config.deployment, deployed.entrypoint or "")
    configs = check_trials(trials, deployed.parameters, config.store)
    get_run_logger().info(
        "%d runs of %s are to be compared. A worker needs a slot for them beside the sweep's own "
        "(--limit 2 or more). %s",
        len(trials),
        config.deployment,
        describe_budgets(configs),
    )
    return trials


def _refuse_launcher(deployment: str, entrypoint: str) -> None:
    """Refuse a deployment that launches a managed job and ends: its run has trained nothing then.

    Raises:
        ConfigError: it is one.
    """
    if _LAUNCHER in entrypoint:
        raise ConfigError(
            f"A run of {deployment} ends once its managed job is launched, so that a sweep would "
            "rank nothing, and its machines would go on.",
            "Name a deployment whose run trains, such as train/h100.",
        )


@task(name="run trial", task_run_name="trial {trial.model}", **RETRIED)
async def run_trial(config: SweepConfig, trial: Trial) -> TrialResult:
    """Train with some settings and a seed; a run that fails is a result too."""
    tag = _tag(trial, config.store)
    run = await _find_at_work(tag) or await arun_deployment(
        config.deployment,
        # As one object: of `trainer` alone, without its kind, the server can't say which it is.
        parameters={"config": trial.parameters(config.store)},
        flow_run_name=trial.model,
        tags=[TRIAL_TAG, tag],
        timeout=0,
    )
    try:
        ended = await _wait_for_end(run)
    except asyncio.CancelledError:
        await _cancel(run)
        raise
    failure = "" if ended.state_type == StateType.COMPLETED else _why(ended)
    if failure:
        settings = describe(trial.changes)
        get_run_logger().warning("%s (%s) ended as %s", trial.model, settings, failure)
    try:
        ledger = await asyncio.to_thread(load_ledger, open_store(config.store), trial.model)
    except UnusableRun as error:
        return TrialResult(trial, failure=failure or str(error))
    return result_of(trial, ledger, failure)


@task(name="publish ranking", task_run_name="rank the trials of {config.name}", **RETRIED)
async def publish_ranking(config: SweepConfig, results: Sequence[TrialResult]) -> str:
    """The report in the store and in Prefect's UI; its address.

    Raises:
        UnusableRun: no trial was measured.
    """
    ranked = rank(results)
    page = sweep_report(config.name, ranked)
    store = open_store(config.store)
    folder = report_folder(config.name)
    await asyncio.to_thread(store.put, f"{folder}report.md", page.encode())
    await asyncio.to_thread(store.put, f"{folder}trials.jsonl", trial_lines(ranked).encode())
    await acreate_markdown_artifact(page, key=artifact_key("sweep", config.name))
    get_run_logger().info("%s", verdict(ranked))
    if ranked[0].accuracy is None:
        raise UnusableRun(
            f"No trial of the sweep {config.name!r} was measured. The first failed with: "
            f"{results[0].failure or 'nothing that it said'}"
        )
    return f"{store.url}/{folder}report.md"


async def _find_at_work(tag: str) -> FlowRun | None:
    """A run of a trial that an earlier run of the sweep has left at work.

    One that was cancelled with that sweep is waited for, since it holds the model, and is none.
    """
    async with get_client() as client:
        found = await client.read_flow_runs(
            flow_run_filter=FlowRunFilter(
                tags=FlowRunFilterTags(all_=[tag]),
                state=FlowRunFilterState(type=FlowRunFilterStateType(any_=_ALIVE)),
            ),
        )
    at_work = None
    for run in found:
        if run.state_type == StateType.CANCELLING:
            await _wait_for_end(run)
        else:
            at_work = run
    return at_work


async def _wait_for_end(run: FlowRun) -> FlowRun:
    """The run once it has ended. It is asked for: events can be lost, and would end no wait."""
    async with get_client() as client:
        while run.state is None or not run.state.is_final():
            await asyncio.sleep(_POLL_S)
            run = await client.read_flow_run(run.id)
    return run


async def _cancel(run: FlowRun) -> None:
    """Have a trial end after its commit."""
    async with get_client() as client:
        await client.set_flow_run_state(run.id, Cancelling())


def _why(run: FlowRun) -> str:
    message = run.state.message if run.state else ""
    return f"{run.state_name}: {message}"


def _tag(trial: Trial, store: str) -> str:
    """Names a trial on a server where others have sweeps of the same name, in stores of theirs."""
    return f"trial {trial.model} in {open_store(store).url}"
