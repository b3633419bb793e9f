"""A running benchmark: its contenders, and the tools they share."""

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from precis.benchmark.client import ContenderClient
from precis.benchmark.contender import ContenderSpec
from precis.benchmark.lineup import (
    TrainedLineup,
    hosted_of,
    line_up_trained,
    serve_baselines,
    serve_rehearsed,
)
from precis.benchmark.measure import Attempt, Measured, measure
from precis.config import BenchmarkConfig
from precis.environments.protocol import Environment
from precis.environments.recorder import Recorder
from precis.errors import ConfigError, StoreError
from precis.llm.budget import Budget, PaidOnce
from precis.observe.observers import Observers, observing
from precis.observe.rollouts import records_of
from precis.processes.signals import cancel_on_sigterm
from precis.records.results import results_before
from precis.records.rollout import Rollout, Unscored
from precis.records.spend import Estimate, Usage
from precis.records.trajectories import read_first_validation
from precis.report.nights import Comparison, compare_nights
from precis.report.wording import Words, total
from precis.runs.shortcomings import flattered
from precis.store import open_store
from precis.store.kept import KeptRecords
from precis.text import write_dollars

_log = logging.getLogger(__name__)


class BenchmarkRun:
    """The tools of a benchmark, without its findings.

    `machine_usd` is the cost of a machine that was rented for it alone.

    Not a dataclass: Prefect traverses those, with all they hold, on every task call.
    """

    def __init__(
        self,
        config: BenchmarkConfig,
        environment: Environment,
        recorder: Recorder,
        observers: Observers,
    ) -> None:
        self.config = config
        self.recorder = recorder
        self.observers = observers
        self.store = open_store(config.store)
        self.began = datetime.now(UTC)
        self.id = f"{self.began:%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}"
        self.kept = KeptRecords(self.store)
        self.machine_usd = 0.0
        before = environment.spend
        self.budget = Budget(config.dollars_max, lambda: environment.spend.since(before))
        self.environment = (
            environment.for_benchmark(config, PaidOnce(self.kept, self.budget)) or environment
        )
        self.given = environment

    @property
    def name(self) -> str:
        return self.config.model

    @property
    def sampled(self) -> int:
        """The number of sampled attempts at each scenario beside the greedy one."""
        return self.config.attempts if self.config.attempts > 1 else 0

    def tell(self, contender: ContenderSpec, attempt: Attempt) -> None:
        """Report a contender's finished rollout to the observers; does not block."""
        if not attempt.kept:
            origin = {"split": "benchmark", "contender": str(contender.contender)}
            model = contender.endpoint.model
            seen = records_of([attempt.rollout], self.id, model, origin, attempt.parameters)
            self.observers.rollouts(seen)

    async def read_first(self) -> list[Rollout]:
        """Return the rollouts of the model's first validation, if attempts are compared with them.
        Raises ConfigError if there is none."""
        if not self.environment.compares:
            return []
        held_out = self.environment.scenarios("validation")
        first = await asyncio.to_thread(read_first_validation, self.store, self.name, held_out)
        if first is None:
            raise ConfigError(
                f"{self.store.url} holds no validation of {self.name!r}, and a judge compares "
                "each attempt with those of the first one.",
                f"Train {self.name!r} first, or name another `model` or `store`.",
            )
        return first[1]

    def client_of(self, contender: ContenderSpec, dry: bool = False) -> ContenderClient:
        """Return a client of a contender; free, deterministic replies are not kept."""
        scoring_costs = self.environment.forecast(1) is not None
        keeps = contender.identity is not None and (contender.paid or scoring_costs)
        kept = self.kept if keeps else None
        return ContenderClient(contender, self.config.rollouts, self.budget, kept, dry)


@asynccontextmanager
async def open_benchmark(
    config: BenchmarkConfig, environment: Environment
) -> AsyncIterator[BenchmarkRun]:
    """Yield a benchmark, and close its connections after the block, which SIGTERM cancels."""
    with cancel_on_sigterm():
        async with observing() as observers, Recorder.of(config) as recorder:
            yield BenchmarkRun(config, environment, recorder, observers)


async def line_up(run: BenchmarkRun) -> TrainedLineup | None:
    """Return the chosen checkpoints; None without any. For errors see `line_up_trained`, and
    `hosted_of` for a missing key."""
    if run.sampled and run.config.environment.kind == "summaries":
        raise ConfigError(
            "attempts is for agents, whose rollouts may be a success.",
            "Leave it out for a model that summarizes.",
        )
    # Only to check that all keys are set before a trainer is started.
    hosted_of(run.config)
    await run.kept.open()
    trained = await asyncio.to_thread(
        line_up_trained, run.store, run.config, run.environment, _log.warning
    )
    if run.config.test_documents and trained and trained.seen == 0:
        count = len(run.environment.scenarios("validation"))
        scenarios = run.environment.nouns.scenarios
        _log.info("%s was trained on none of these %d %s.", run.name, count, scenarios)
    return trained


@asynccontextmanager
async def serve_others(run: BenchmarkRun) -> AsyncIterator[list[ContenderSpec]]:
    """Serve the rehearsed model and the baselines within the block; yield them and the hosted
    models."""
    hosted = hosted_of(run.config)
    corpus = None if run.config.test_documents else run.environment.digest
    async with (
        serve_rehearsed(run.store, run.config, corpus) as extractive,
        serve_baselines(run.config, run.environment) as baselines,
    ):
        yield [*hosted, *extractive, *baselines]


async def estimate_cost(
    recorder: Recorder,
    contenders: Sequence[ContenderClient],
    environment: Environment,
    sampled: int = 0,
    *,
    ceiling: bool = True,
) -> list[Estimate]:
    """Count the kept replies and bound the cost of the rest, by dry contenders in an environment
    that sends no requests either; see `measure`. In a rollout with several turns, only the first
    missing reply counts. The cost of scoring is estimated separately: with `ceiling`, that of
    measuring the ceiling is in it."""
    unpriced: set[str] = set()
    paid = 0
    usd = thinking_usd = 0.0
    kept = 0
    unscored = 0
    scenarios = environment.scenarios("validation")
    for contender in contenders:
        if contender.kept is None:
            unscored += len(scenarios) * (1 + sampled)
            continue
        attempts = await measure(recorder, contender, environment, scenarios, sampled=sampled)
        for attempt in attempts:
            unscored += isinstance(attempt.rollout.score, Unscored)
            kept += not attempt.missing
            spec = contender.spec
            if spec.paid and attempt.missing:
                paid += 1
                if spec.price is None:
                    unpriced.add(str(spec.contender))
                else:
                    usd += spec.price.of(attempt.missing[0])
                    thinking_usd += spec.price.of(Usage(0, spec.thinking_tokens))
    thinking = f", and up to {write_dollars(thinking_usd)} of thought" if thinking_usd else ""
    unknown = f"No price is known for {', '.join(sorted(unpriced))}: only its replies may give it."
    asked = Estimate(
        f"{environment.nouns.rollouts.capitalize()} to be paid for: {paid:,}, up to "
        f"{total(usd, is_lower_bound=bool(unpriced))}{thinking}; kept: {kept:,}.",
        usd,
        (unknown,) if unpriced else (),
    )
    scoring = environment.forecast(unscored, ceiling=ceiling)
    if scoring:
        return [asked, scoring]
    return [asked] if paid else []


async def announce_cost(run: BenchmarkRun, contenders: Sequence[ContenderSpec]) -> None:
    """Log the cost of the benchmark in advance, unless it is free, or unknown to the
    environment."""
    dry = run.given.for_benchmark(run.config, PaidOnce(run.kept, run.budget, dry=True))
    costs = any(one.paid for one in contenders) or run.environment.forecast(1) is not None
    if dry is None or not costs:
        return
    clients = [run.client_of(contender, dry=True) for contender in contenders]
    known = await dry.ceiling(run.store) is not None
    ahead = await estimate_cost(run.recorder, clients, dry, run.sampled, ceiling=not known)
    if ahead:
        _log.info("%s", " ".join(map(str, ahead)))
    for one in ahead:
        for sentence in one.warnings:
            _log.warning("%s", sentence)
    limit = run.config.dollars_max
    if limit is not None and sum(one.usd or 0.0 for one in ahead) > limit:
        _log.warning(
            "dollars_max, %s, may not last: what is left over goes unscored, and a later "
            "benchmark makes up for it.",
            write_dollars(limit),
        )


def compare(run: BenchmarkRun, measured: Measured) -> Comparison:
    """Compare the rows of a benchmark with those of the model's earlier ones under the same rules
    and on the same scenarios; without them if they can't be read, since this one is paid for."""
    nights = run.config.compare_nights
    try:
        before = results_before(run.store, run.name, run.id, measured.frame, nights)
    except StoreError as error:
        _log.warning("This benchmark is not compared with earlier ones: %s", error)
        return Comparison(unread=str(error))
    return compare_nights(measured.frame, before, words_of(run, measured))


def words_of(run: BenchmarkRun, measured: Measured, trained: TrainedLineup | None = None) -> Words:
    caveats = [run.environment.caveat]
    if trained and trained.steps and run.config.test_documents is None:
        caveats.append(flattered(trained.ledger, trained.steps[-1]))
    return Words(
        run.environment.nouns,
        measured.figure.name,
        measured.figure.is_share,
        run.environment.columns,
        run.environment.method,
        " ".join(filter(None, caveats)),
        run.environment.disqualifiers,
    )
