"""What a run needs to be up: trainer, judge and stand-ins."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from dataclasses import replace

from prefect import task

from precis.config import RunConfig
from precis.environment import Environment
from precis.judge import JudgeClient, endpoint_for
from precis.judge.cache import CACHE_FILE, ReplyCache
from precis.judge.ruler import RulerJudge
from precis.loopback import Service, child_service
from precis.run import Services, trainer_folder, work_folder
from precis.trainer import RemoteTrainer
from tasks.policy import RETRIED

_up: ContextVar[Services | None] = ContextVar("services", default=None)


@asynccontextmanager
async def services(config: RunConfig) -> AsyncIterator[Services]:
    """The services of a run: those of the flow around this one, or else started here.

    What is started here is stopped when the block ends, however it ends.
    """
    if (running := _up.get()) is not None:
        yield running
        return
    async with AsyncExitStack() as stack:
        standins = await start_standins(config, stack)
        judge, ruler = await connect_judge(config, standins, stack)
        started = Services(await start_trainer(config, stack), judge, ruler, standins)
        token = _up.set(started)
        try:
            yield started
        finally:
            _up.reset(token)


@task(name="start stand-ins", **RETRIED)
async def start_standins(config: RunConfig, stack: AsyncExitStack) -> Service:
    """Start the lexical judge and the baselines beside the flow."""
    log = work_folder(config) / "standins.log"
    return await stack.enter_async_context(
        child_service("precis.standins.serve", ["--with-parent"], log)
    )


@task(name="connect judge", task_run_name="connect judge: {config.judge.provider}", **RETRIED)
async def connect_judge(
    config: RunConfig, standins: Service, stack: AsyncExitStack
) -> tuple[JudgeClient, RulerJudge | None]:
    """Open the judge's client, its cache of replies, and, where asked for, its ranking."""
    environment = Environment()
    endpoint = endpoint_for(config.judge, environment.keys(), f"{standins.url}/v1")
    if config.judge.provider == "lexical":
        endpoint = replace(endpoint, api_key=standins.token)
    cache = stack.enter_context(ReplyCache(environment.home / CACHE_FILE))
    judge = await stack.enter_async_context(JudgeClient(endpoint, config.judge, cache=cache))
    if config.rollouts.reward == "questions":
        return judge, None
    return judge, await stack.enter_async_context(
        RulerJudge(endpoint, config.judge, limiter=judge.limiter)
    )


@task(name="start trainer", task_run_name="start trainer of {config.model}", **RETRIED)
async def start_trainer(config: RunConfig, stack: AsyncExitStack) -> RemoteTrainer:
    """Start a trainer as a child process, which goes when this process goes."""
    folder = stack.enter_context(trainer_folder(config))
    arguments = ["--path", str(folder), "--seed", str(config.seed), "--with-parent"]
    log = work_folder(config) / "trainer.log"
    service = await stack.enter_async_context(
        child_service("precis.trainer.server", arguments, log)
    )
    trainer = RemoteTrainer(service.url, service.token, work_folder(config) / "art")
    stack.push_async_callback(trainer.close)
    return trainer
