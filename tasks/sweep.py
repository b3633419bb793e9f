"""The trials of a sweep as runs of a deployment, and their ranking."""

import asyncio
from collections.abc import Sequence

from prefect import get_client
from prefect.artifacts import acreate_markdown_artifact
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
    FlowRunFilterTags,
)
from prefect.client.schemas.objects import TERMINAL_STATES, FlowRun, StateType
from prefect.deployments.flow_runs import arun_deployment
from prefect.exceptions import ObjectNotFound
from prefect.logging import get_run_logger
from prefect.states import Cancelling

from precis.errors import ConfigError
from precis.store import open_store
from precis.sweep.ranking import TrialResult, rank, read_result
from precis.sweep.report import refuse_unmeasured, store_report, sweep_report, verdict
from precis.sweep.trials import (
    TRIAL_TAG,
    SweepConfig,
    Trial,
    check_trials,
    describe,
    describe_plan,
    plan_trials,
    refuse_launcher,
)
from tasks.policy import retried
from tasks.ui import artifact_key

_POLL_S = 2
_SLEPT_S = 20
_ALIVE = [kind for kind in StateType if kind not in TERMINAL_STATES]


@retried("plan trials", "plan the trials of {config.name}")
async def prepare_trials(config: SweepConfig) -> list[Trial]:
    """Return the trials, their settings checked with those of the deployment. Raises ConfigError if
    there is no such deployment, or a trial's settings are invalid."""
    trials = plan_trials(config)
    async with get_client() as client:
        try:
            deployed = await client.read_deployment_by_name(config.deployment)
        except ObjectNotFound as error:
            raise ConfigError(
                f"There is no deployment {config.deployment!r} on this server: name another, or "
                "bring ours to it with `precis up`."
            ) from error
    refuse_launcher(config.deployment, deployed.entrypoint or "")
    configs = check_trials(trials, deployed.parameters, config.store)
    get_run_logger().info("%s", describe_plan(config.deployment, configs))
    return trials


@retried("run trial", "trial {trial.model}")
async def run_trial(config: SweepConfig, trial: Trial) -> TrialResult:
    """Train with some settings and a seed; a failed run is a result too."""
    tag = trial.tag(config.store)
    run = await _find_at_work(tag) or await arun_deployment(
        config.deployment,
        # As one object: for `trainer` alone, without its kind, the server can't choose a schema.
        parameters={"config": trial.parameters(config.store)},
        flow_run_name=trial.model,
        tags=[TRIAL_TAG, tag],
        timeout=0,
    )
    try:
        ended = await _wait_for_end(run)
    except asyncio.CancelledError:
        async with get_client() as client:
            await client.set_flow_run_state(run.id, Cancelling())  # it ends after its commit
        raise
    failure = ""
    if ended.state_type != StateType.COMPLETED:
        message = ended.state.message if ended.state else ""
        failure = f"{ended.state_name}: {message}"
        settings = describe(trial.changes)
        get_run_logger().warning("%s (%s) ended as %s", trial.model, settings, failure)
    return await asyncio.to_thread(read_result, open_store(config.store), trial, failure)


@retried("publish ranking", "rank the trials of {config.name}")
async def publish_ranking(config: SweepConfig, results: Sequence[TrialResult]) -> str:
    """Write the report to the store and to Prefect's UI; return its address. Raises UnusableRun if
    no trial was measured."""
    ranked = rank(results)
    page = sweep_report(ranked)
    store = open_store(config.store)
    address = await asyncio.to_thread(store_report, store, config.name, page)
    await acreate_markdown_artifact(page, key=artifact_key("sweep", config.name))
    get_run_logger().info("%s", verdict(ranked))
    refuse_unmeasured(config.name, ranked)
    return address


async def _find_at_work(tag: str) -> FlowRun | None:
    """Return a trial's run that an earlier run of the sweep has left running. One that is being
    cancelled still holds the model: it is waited for, and not returned."""
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
    """Return the run once it has ended. This polls, since events can be lost."""
    async with get_client() as client:
        while run.state is None or not run.state.is_final():
            await asyncio.sleep(_POLL_S)
            run = await client.read_flow_run(run.id)
            if run.state_type == StateType.CRASHED:  # it says so in seconds if it only slept
                await asyncio.sleep(_SLEPT_S)
                run = await client.read_flow_run(run.id)
    return run
