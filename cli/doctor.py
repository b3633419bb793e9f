"""`precis doctor`: what a run needs, checked and shown as a table."""

import asyncio
import logging
import os
import shlex
import signal
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from typing import Any

from prefect.settings import (
    PREFECT_API_AUTH_STRING,
    PREFECT_API_KEY,
    PREFECT_API_URL,
    get_current_settings,
    temporary_settings,
)
from pydantic import ValidationError
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cli import prefect_server
from cli.deployments import read_deployment, read_params
from precis import checks
from precis.benchmark.lineup import RANDOM, hosted_of, refuse_unknown_baselines
from precis.benchmark.measure import with_settings_of_its_run
from precis.checks import Check, CheckResult, run_checks
from precis.cleartext import keys_in_clear
from precis.cluster import api
from precis.cluster.gpus import gpus_suffice
from precis.cluster.managed import check_reach
from precis.cluster.offers import budget_lasts, clouds_of, gpu_offered, infra_enabled
from precis.config import BenchmarkConfig, ManagedConfig, RunConfig, TrainConfig
from precis.environment import key_variables
from precis.environments.demonstrations import prepare_warm_start
from precis.environments.protocol import Environment
from precis.environments.ruler import TrajectoryRuler
from precis.environments.summaries.baselines import baselines
from precis.environments.summaries.environment import Summaries
from precis.environments.summaries.judge import Endpoint, JudgeClient, endpoint_for
from precis.environments.summaries.judge.endpoint import LEXICAL_MODEL, SECOND_KEY
from precis.environments.summaries.services import Services
from precis.errors import ClusterError, ConfigError, PrecisError
from precis.models.licences import check_licence
from precis.processes.child import ChildService
from precis.records.documents import load_corpus, load_others
from precis.records.ledger import find_ledger
from precis.runs.continuation import check_settings
from precis.runs.lease import check_free
from precis.runs.shortcomings import nothing_to_train
from precis.settings.environment import AgentSettings, label_of
from precis.settings.overrides import lay_over
from precis.settings.problems import problems_in
from precis.settings.tinker import TinkerTrainer
from precis.store import open_store
from precis.text import write_dollars
from precis.trainer.tinker.check import check_key, check_service, is_client_installed
from precis.trainer.tinker.check import require_client as require_tinker
from precis.training.opening import load_agent, open_environment
from precis.training.preflight import check_warm_start, find_stored_run, forecast
from precis.training.run import identity_of
from tasks.secrets import adopt_secrets

_SOME_BUCKET = "s3://bucket"
"""A placeholder for a store not yet named, so that everything else can be checked."""
_FAREWELL_S = 3.0
"""The time that interrupted checks have to clean up."""


def examine_deployment(deployment: str, params: Sequence[str], console: Console) -> bool:
    """Check what a deployment's runs need, print a table, and return whether all is well.

    `params` override the deployment's settings, as in `prefect deployment run -p`.
    """
    config, store_problem = read_settings(deployment, params)
    logging.disable(logging.WARNING)  # libraries' messages about retries; the table is enough
    try:
        with console.status("Checking …"):
            rows = asyncio.run(_examine(config, store_problem, console))
    finally:
        logging.disable(logging.NOTSET)
    table = Table(box=None, pad_edge=False)
    for heading in ("", "Check", "Found, and what to do"):
        table.add_column(heading, overflow="fold")
    failed = 0
    for row in rows:
        failed += not row.ok
        mark = Text("✓", "green") if row.ok else Text("✗", "red")
        remedy = f"\n→ {row.remedy}" if row.remedy else ""
        table.add_row(mark, row.name, Text(f"{row.detail}{remedy}"))
    console.print(table)
    if failed:
        console.print(f"{failed} of {len(rows)} checks failed.")
    else:
        given = "".join(f" -p {shlex.quote(param)}" for param in params)
        console.print(
            "Next: `precis up`; in another terminal the lines that it prints for it, then\n"
            f"  prefect deployment run {shlex.quote(deployment)}{given}",
            soft_wrap=True,
        )
    for sentence in keys_in_clear(config):
        console.print(f"Warning: {sentence}", style="yellow", soft_wrap=True)
    return not failed


async def _examine(
    config: RunConfig, store_problem: ConfigError | None, console: Console
) -> list[CheckResult]:
    """Return a row for each check, after loading keys that only the server's Secret blocks hold."""
    rows = await run_checks({"Prefect": prefect_server.check})
    if rows[0].ok and prefect_server.find() is not None:
        rows += await run_checks({"Secret blocks": _adopt_secrets})
    try:
        planned = await asyncio.to_thread(checks_of, config, store_problem)
        return rows + await run_checks(planned)
    except asyncio.CancelledError:
        # Nothing ends a thread: without a network the Hub's client retries for long.
        farewell = threading.Timer(_FAREWELL_S, os._exit, (128 + signal.SIGINT,))
        farewell.daemon = True
        farewell.start()
        console.show_cursor()
        raise


def checks_of(config: RunConfig, store_problem: ConfigError | None = None) -> dict[str, Check]:
    """Return the checks for a deployment's settings; a benchmark takes some from its model's run,
    as the flow does. The problem says why the run can't use its store."""
    problems: dict[str, PrecisError] = {"store": store_problem} if store_problem else {}
    planned: dict[str, Check] = {}
    if isinstance(config, BenchmarkConfig):
        if not problems:
            try:
                config = with_settings_of_its_run(config, open_store(config.store))
            except PrecisError as error:
                problems["model"] = error
            planned["model"] = lambda: _check_model(config)
        planned["store"] = lambda: checks.check_store(config.store)
        planned["contenders"] = lambda: _check_contenders(config)
        if not problems:  # otherwise it is not known
            planned |= _checks_of_environment(config)
    else:
        assert isinstance(config, TrainConfig)
        planned |= _checks_of_environment(config)
        if config.warm_start:
            planned["warm start"] = lambda: _check_warm_start(config)
        planned["store"] = lambda: checks.check_store(config.store)
        if not problems:
            planned["run"] = lambda: _check_run(config)
            planned["forecast"] = lambda: _forecast(config)
        planned["W&B"] = lambda: checks.check_wandb(config.trainer)
        planned["licence"] = lambda: check_licence(config.trainer)
    if isinstance(config, ManagedConfig):
        planned["reach"] = lambda: _check_reach(config)
    planned |= _checks_of_machines(config)
    for name, problem in problems.items():
        planned[name] = partial(_refuse, problem)
    return planned


def _checks_of_environment(config: RunConfig) -> dict[str, Check]:
    environment = config.environment
    if environment.kind != "summaries":
        return {"environment": lambda: _check_environment(environment, config)}
    planned: dict[str, Check] = {
        "documents": lambda: _check_documents(config),
        "judge": lambda: checks.check_judge(config.judge),
    }
    second = config.second_judge if isinstance(config, TrainConfig) else None
    if second:
        planned["second judge"] = lambda: checks.check_judge(second, SECOND_KEY)
    return planned


def _checks_of_machines(config: RunConfig) -> dict[str, Check]:
    """Return the checks for the trainer: a service, a GPU of this machine, or one to rent."""
    trainer = config.trainer
    if isinstance(trainer, TinkerTrainer):
        return {
            "Tinker's client": _check_tinker_client,
            "Tinker": lambda: _check_tinker(trainer),
        }
    if config.cluster.where == "local":
        if trainer.kind != "art":
            return {}
        return {"GPU": lambda: gpus_suffice(trainer.engine.gpus)}
    rented: dict[str, Check] = {"SkyPilot": _check_skypilot}
    rented["SkyPilot's keys"] = lambda: _check_clouds(config)
    if api.is_installed():
        rented["GPU"] = lambda: gpu_offered(config.cluster)
    rented["budget"] = lambda: _check_budget(config)
    return rented


async def _adopt_secrets() -> str:
    server = prefect_server.find()
    assert server is not None
    # Prefect's client may have read its settings before the server's secrets were known.
    found: dict[Any, str] = {PREFECT_API_URL: server}
    for setting in (PREFECT_API_AUTH_STRING, PREFECT_API_KEY):
        found[setting] = os.environ.get(setting.name, "")
    with temporary_settings(found):
        adopted = await adopt_secrets()
    return ", ".join(adopted) or "no key that is not set here"


async def _refuse(problem: PrecisError) -> str:
    raise problem


async def _check_run(config: TrainConfig) -> str:
    """Describe whether a run is new or continued, and refuse settings that would change it."""
    store = open_store(config.store)
    await asyncio.to_thread(store.check)  # which makes a bucket that may be made
    ledger = await asyncio.to_thread(find_stored_run, store, config)
    if not config.take_over:
        await asyncio.to_thread(check_free, store, config.model)
    if ledger is None:
        return f"{config.model} is new"
    async with _environment_of(config) as environment:
        identity = identity_of(config, environment)
        check_settings(ledger, config, identity, environment.digest, store.url)
    at = f"{config.model} is continued from step {ledger.next_step}"
    return nothing_to_train(ledger, config.steps, store.url) or at


async def _forecast(config: TrainConfig) -> str:
    """Return what models will cost; the other rows say what keeps it from being known."""
    nobody = ChildService("http://127.0.0.1:9", "none", 0)
    if config.environment.kind == "summaries":
        opened = open_environment(config, lambda *_: nullcontext(nobody))
    else:  # an agent's own resources are started by its check, at the same time
        opened = _environment_of(config)
    try:
        async with opened as environment:
            found = await asyncio.to_thread(find_ledger, open_store(config.store), config.model)
            ahead = forecast(config, environment, found[0].next_step if found else 0)
    except PrecisError:
        return "not known yet"
    return " ".join(map(str, ahead)) or "no model costs money"


@asynccontextmanager
async def _environment_of(config: TrainConfig) -> AsyncIterator[Environment]:
    """Provide a run's environment, without making a request."""
    if config.environment.kind != "summaries":
        agent = await asyncio.to_thread(load_agent, config.environment)
        if agent.rubric:
            agent.ruler = TrajectoryRuler(_any_judge(config), config.judge, agent.rubric)
        agent.warm_start = prepare_warm_start(config.warm_start, agent)
        try:
            yield agent
        finally:
            if agent.ruler:
                await agent.ruler.close()
        return
    corpus = await asyncio.to_thread(load_corpus, config.documents)
    async with JudgeClient(_any_judge(config), config.judge) as judge:
        summaries = Summaries(corpus, config.rollouts, Services(judge))
        warm_start = await asyncio.to_thread(prepare_warm_start, config.warm_start, summaries)
        summaries.warm_start = warm_start
        yield summaries


def _any_judge(config: TrainConfig) -> Endpoint:
    """Return the judge's endpoint; its identity does not depend on its key."""
    if config.judge.provider == "lexical":
        return Endpoint("http://127.0.0.1/v1", LEXICAL_MODEL, "none")
    return endpoint_for(config.judge, dict.fromkeys(key_variables(), "none"))


async def _check_environment(settings: AgentSettings, config: RunConfig) -> str:
    async with await asyncio.to_thread(load_agent, settings) as environment:
        problems = await environment.checks()
        if problems:
            raise ConfigError(" ".join(problems))
        if isinstance(config, BenchmarkConfig):
            known = [*environment.baselines(), RANDOM]
            refuse_unknown_baselines(config.baselines or (), known)
    learned = set(map(environment.content_of, environment.scenarios("train")))
    held_out = list(map(environment.content_of, environment.scenarios("validation")))
    scenarios = environment.nouns.scenarios
    train = len(environment.scenarios("train"))
    found = f"{label_of(settings)}: {train} {scenarios} to train on, {len(held_out)} held out"
    if alike := sum(content in learned for content in held_out):
        found += f", {alike} of them like one to train on but for the id"
    if environment.rubric:
        found += f"; judge {await checks.check_judge(config.judge)}"
    return found


async def _check_warm_start(config: TrainConfig) -> str:
    async with _environment_of(config) as environment:
        return await check_warm_start(config, environment)


async def _check_model(config: BenchmarkConfig) -> str:
    if config.checkpoints == "none":
        return "no checkpoint takes part"
    found = await asyncio.to_thread(find_ledger, open_store(config.store), config.model)
    return f"{config.model} is at step {found[0].next_step}" if found else config.model


async def _check_documents(config: RunConfig) -> str:
    own = config.test_documents if isinstance(config, BenchmarkConfig) else None
    if own is None:
        return await checks.check_documents(config.documents)
    corpus = await asyncio.to_thread(load_others, own)
    return f"{own.source}: {len(corpus.validation)} of the benchmark's own"


async def _check_contenders(config: BenchmarkConfig) -> str:
    if config.environment.kind == "summaries":
        refuse_unknown_baselines(config.baselines or (), baselines())
    names = ", ".join(str(one.contender) for one in hosted_of(config))
    return names or "no hosted model takes part"


async def _check_tinker_client() -> str:
    require_tinker()
    return "installed"


async def _check_tinker(trainer: TinkerTrainer) -> str:
    check_key(trainer)
    if not is_client_installed():
        return "its key is set; the service was not asked, for want of its client"
    return await check_service(trainer)


async def _check_skypilot() -> str:
    if not api.is_installed():
        raise ConfigError("SkyPilot is not installed.", "Run `make install-sky`.")
    return "installed"


async def _check_clouds(config: RunConfig) -> str:
    if not api.is_installed():
        clouds = clouds_of(config.cluster)
        raise ConfigError(
            f"Not known without SkyPilot: it rents at {', '.join(clouds)}.",
            f"Then run `sky check {clouds[0]}`, which says what is missing.",
        )
    return await infra_enabled(config.cluster)


async def _check_budget(config: RunConfig) -> str:
    budget_usd = config.budget_usd if isinstance(config, TrainConfig) else None
    given = "no budget_usd" if budget_usd is None else write_dollars(budget_usd)
    unpriced = f"{given}; what a machine costs is not known"
    if not api.is_installed():
        return unpriced
    try:
        return await budget_lasts(config.cluster, budget_usd)
    except ClusterError:  # reported in the GPU's row
        return unpriced


async def _check_reach(config: ManagedConfig) -> str:
    """Check that a rented machine can reach everything that the settings name."""
    check_reach(config, config.prefect_api_url or get_current_settings().api.url or "")
    return "nothing is on this machine alone"


def read_settings(
    deployment: str, params: Sequence[str] = ()
) -> tuple[RunConfig, ConfigError | None]:
    """Return the settings of a run of a deployment, with `params` over the deployment's, and why it
    can't use its store, if it can't.

    Raises:
        ConfigError: prefect.yaml has no such deployment of training or a benchmark, or a parameter
            is not of the form `name=value`.
        ValidationError: the settings are invalid.
    """
    model, parameters = read_deployment(deployment)
    settings = lay_over(model, parameters, read_params(params))
    try:
        return model.model_validate(settings), None
    except ValidationError as error:
        # A missing store must not hide other problems, as any other error would.
        config = model.model_validate({**settings, "store": _SOME_BUCKET})
        return config, ConfigError(problems_in(error)[0])
