"""Who takes part in a benchmark: the checkpoints, the hosted models, the baselines."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import polars as pl
from prefect import task
from prefect.logging import get_run_logger

from precis.benchmark.cache import ResultCache
from precis.benchmark.client import ContenderClient
from precis.benchmark.contender import ContenderSpec, local_contender
from precis.benchmark.extractive import serve_rehearsed
from precis.benchmark.lineup import checkpoint_digest, list_baselines, list_hosted
from precis.benchmark.measure import TRAINED, BenchmarkId, checkpoints_to_take, report_folder
from precis.benchmark.referee import BenchmarkJudge
from precis.config import BenchmarkConfig
from precis.environment import Environment
from precis.errors import ConfigError, TrainerLost
from precis.llm.budget import Budget
from precis.observe.observers import Observers, observing
from precis.records.documents import Corpus
from precis.records.ledger import Ledger, load_ledger
from precis.run.checkpoints import committed_steps
from precis.run.trained_on import trained_on
from precis.statistics.nights import NightlyChange
from precis.statistics.standings import Contender
from precis.store import open_store
from precis.training.run import Services, trainable
from tasks.cluster import ServingTrainer, serving
from tasks.policy import RETRIED
from tasks.states import show_running_as


class BenchmarkRun:
    """A benchmark at work, and what it has measured so far. (Not a dataclass: see `Run`.)"""

    def __init__(self, config: BenchmarkConfig, corpus: Corpus, services: Services) -> None:
        self.config = config
        self.corpus = corpus
        self.services = services
        self.store = open_store(config.store)
        self.night = BenchmarkId.now()
        self.ledger: Ledger | None = None
        self.writers: list[ContenderClient] = []
        self.frames: list[pl.DataFrame] = []
        self.ceiling: float | None = None
        self.changes: list[NightlyChange] = []
        self.nights = 0
        self.trained_on = 0
        self.before: pl.DataFrame | None = None
        judge = services.judge
        before = services.judge.spend
        self.budget = Budget(config.dollars_max, lambda: judge.spend.since(before).usd)
        self.kept = ResultCache(self.store)
        self.judged_for_money = config.judge.provider != "lexical"
        kept = self.kept if self.judged_for_money else None
        self.referee = BenchmarkJudge(judge, config.judge, config.rollouts, self.budget, kept)
        self.stack = AsyncExitStack()
        self.observers = Observers([])
        self._served: ServingTrainer | None = None
        self._losses = 0

    @property
    def name(self) -> str:
        return self.config.model

    @property
    def steps(self) -> int:
        """How many steps the model has been trained."""
        return self.ledger.next_step if self.ledger else 0

    @property
    def folder(self) -> str:
        """Where in the store the newest report after so many steps, on these documents, lies."""
        return report_folder(self.name, self.steps, self.config, self.corpus)

    @property
    def own_folder(self) -> str:
        """Where in the store this benchmark's report lies for good."""
        return f"{self.folder}{self.night.id}/"

    @property
    def folder_url(self) -> str:
        return f"{self.store.url}/{self.folder}"

    async def served(self) -> ServingTrainer:
        """What serves the checkpoints: started when it is first asked for, if nobody else has."""
        if self._served is None:
            self._served = await self.stack.enter_async_context(serving(self.config))
        return self._served

    def writer_of(self, contender: Contender) -> ContenderClient:
        """Who writes for a contender now."""
        return next(one for one in reversed(self.writers) if one.entry.contender == contender)

    def may_recover(self) -> bool:
        """Count one more loss of the trainer; whether it is to be brought up again."""
        self._losses += 1
        return self._losses <= self.config.recoveries_max

    async def enter(self, entry: ContenderSpec) -> None:
        """Let a contender take part; what is free and certain anyway is not kept."""
        keeps = entry.identity is not None and (entry.paid or self.judged_for_money)
        words_max = self.config.rollouts.words_max
        writer = ContenderClient(entry, words_max, self.budget, self.kept if keeps else None)
        self.writers.append(await self.stack.enter_async_context(writer))


@asynccontextmanager
async def open_benchmark(
    config: BenchmarkConfig, corpus: Corpus, services: Services
) -> AsyncIterator[BenchmarkRun]:
    """A benchmark, whose connections are closed when the block ends."""
    round = BenchmarkRun(config, corpus, services)
    async with observing() as round.observers, round.stack:
        round.stack.callback(round.kept.close)
        yield round


@task(name="line up", task_run_name="line up {round.name} and the others", **RETRIED)
async def line_up(round: BenchmarkRun) -> None:
    """The checkpoints, served by the trainer, the hosted models, and the baselines.

    Raises:
        ConfigError: a hosted model's key is not set, or the model was trained on other documents
            than the benchmark's.
        StoreError: the store holds no such model.
    """
    round.writers.clear()
    hosted = list_hosted(round.config, Environment().keys())
    rules = list_baselines(round.config, round.services.standins)
    await round.kept.open()
    digest = None if round.config.test_documents else round.corpus.digest
    served = serve_rehearsed(round.store, round.config, digest)
    extractive = await round.stack.enter_async_context(served)
    for entry in (*await _trained(round), *hosted, *extractive, *rules):
        await round.enter(entry)


async def with_trainer(round: BenchmarkRun, work: Callable[[], Awaitable[None]]) -> None:
    """Do what needs the trainer; where it is lost, bring it up again and do all of it again.

    Raises:
        TrainerLost: it was lost more than `recoveries_max` times in this benchmark.
    """
    while True:
        try:
            return await work()
        except TrainerLost as error:
            if not round.may_recover():
                raise
            get_run_logger().warning("%s It is brought up again.", error)
            await show_running_as("Preempted", str(error))
        await show_running_as("Recovering", "The trainer is brought up again.")
        await with_trainer(round, partial(_bring_up, round))
        await show_running_as("Running", "The trainer is back.")


async def _bring_up(round: BenchmarkRun) -> None:
    """Have the trainer up again, and the checkpoints that are lined up served there."""
    await (await round.served()).bring_up()
    if any(writer.entry.contender.model == TRAINED for writer in round.writers):
        for entry in await _trained(round):
            await round.enter(entry)


async def _warn_of_trained_on(round: BenchmarkRun) -> None:
    """Say which figures may flatter the model, or that nobody knows."""
    documents = round.corpus.validation
    known = await asyncio.to_thread(trained_on, round.store, round.name, documents)
    if known is None and round.config.test_documents:
        get_run_logger().warning(
            "The store does not say which documents %r was trained on: if these are among them, "
            "its accuracy flatters it.",
            round.name,
        )
    if known:
        round.trained_on = len(known)
        get_run_logger().warning(
            "%r was trained on %d of these %d documents (%s): its accuracy flatters it.",
            round.name,
            len(known),
            len(documents),
            ", ".join(document.id for document in known[:3]) + (", …" if len(known) > 3 else ""),
        )


async def _trained(round: BenchmarkRun) -> list[ContenderSpec]:
    if round.config.checkpoints == "none":
        return []
    store = round.store
    rollouts = round.config.rollouts
    round.ledger = await asyncio.to_thread(load_ledger, store, round.name)
    if round.config.test_documents is None and round.ledger.corpus != round.corpus.digest:
        raise ConfigError(
            f"{round.name!r} was trained on other documents or another split than these: some of "
            "the held-out ones may have been trained on. Leave `documents` out to take the run's, "
            "or name documents of the benchmark's own in `test_documents`."
        )
    await _warn_of_trained_on(round)
    model = trainable(round.config)
    trainer = (await round.served()).trainer
    present = await asyncio.to_thread(committed_steps, store, round.name)
    committed = [step for step in present if step <= round.ledger.next_step]
    steps = checkpoints_to_take(committed, round.config)
    for step in steps:
        digest = round.ledger.checkpoints.get(step, "")
        await trainer.fetch(model, step, store.url, round.name, digest)
    await model.register(trainer)
    url = str(model.inference_base_url)
    key = str(model.inference_api_key)
    return [
        local_contender(
            Contender(TRAINED, step),
            model.get_inference_name(step),
            url,
            key,
            words_max=rollouts.words_max,
            in_flight=rollouts.in_flight,
            identity=await asyncio.to_thread(checkpoint_digest, store, round.name, step),
        )
        for step in steps
    ]
