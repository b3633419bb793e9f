"""A benchmark at work: what its contenders share while they are measured."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

import polars as pl

from precis.benchmark.client import ContenderClient
from precis.benchmark.contender import ContenderSpec
from precis.benchmark.forecast import CostEstimate, estimate_cost
from precis.benchmark.lineup import list_hosted
from precis.benchmark.measure import Attempt, BenchmarkId, Measured
from precis.config import BenchmarkConfig
from precis.environment import Environment as Variables
from precis.environments.protocol import Environment
from precis.environments.recorder import Recorder
from precis.errors import ConfigError
from precis.llm.budget import Budget
from precis.records.results import results_before
from precis.records.rollout import Rollout
from precis.records.trajectories import read_first_validation
from precis.statistics.nights import NightlyChange, changes
from precis.store import open_store
from precis.store.kept import KeptRecords


class BenchmarkRun:
    """What a benchmark works with; nothing of what it finds out is kept here.

    Not a dataclass: Prefect walks through those, and all they hold, on every task call.

    Args:
        environment: as a training run has it.
        tell: tells the observers of each rollout.

    Attributes:
        environment: what the contenders are asked to do, as a benchmark asks it.
        id: when it began, and what its results are filed under.
        budget: what contenders and scoring together have spent, and still may.
        kept: replies and verdicts that were paid for already.
        recorder: every contender is asked through it.
    """

    def __init__(
        self,
        config: BenchmarkConfig,
        environment: Environment,
        recorder: Recorder,
        tell: Callable[["BenchmarkRun", ContenderSpec, Attempt], None],
    ) -> None:
        self.config = config
        self.recorder = recorder
        self._tell = tell
        self.store = open_store(config.store)
        self.id = BenchmarkId.now()
        self.kept = KeptRecords(self.store)
        before = environment.spend
        self.budget = Budget(config.dollars_max, lambda: environment.spend.since(before).usd)
        self.environment = environment.for_benchmark(config, self.kept, self.budget) or environment
        self._given = environment

    @property
    def name(self) -> str:
        return self.config.model

    @property
    def sampled(self) -> int:
        """How many sampled attempts there are at each scenario beside the greedy one."""
        return self.config.attempts if self.config.attempts > 1 else 0

    def tell(self, contender: ContenderSpec, attempt: Attempt) -> None:
        """Tell the observers what became of a contender's rollout; takes no time."""
        self._tell(self, contender, attempt)

    async def read_first(self) -> list[Rollout]:
        """Return the rollouts of the model's first validation, where attempts are compared with
        them; none where they have scores of their own.

        Raises:
            ConfigError: there is no validation to compare with.
            StoreError: the store can't be read.
        """
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
        return first

    def client_of(self, contender: ContenderSpec, dry: bool = False) -> ContenderClient:
        """A client of a contender; what is free and certain anyway is not kept."""
        scoring_costs = self.environment.forecast(1) is not None
        keeps = contender.identity is not None and (contender.paid or scoring_costs)
        kept = self.kept if keeps else None
        return ContenderClient(contender, self.config.rollouts, self.budget, kept, dry)

    async def estimate_cost(self, contenders: Sequence[ContenderSpec]) -> CostEstimate | None:
        """See what is kept, and what the rest will cost; None where nothing costs anything, or
        the environment can't say."""
        dry = self._given.for_benchmark(self.config, self.kept, self.budget, dry=True)
        costs = any(one.paid for one in contenders) or self.environment.forecast(1) is not None
        if dry is None or not costs:
            return None
        async with AsyncExitStack() as stack:
            clients = []
            for contender in contenders:
                client = self.client_of(contender, dry=True)
                clients.append(await stack.enter_async_context(client))
            first = await self.read_first()
            return await estimate_cost(self.recorder, clients, dry, first, self.sampled)


@dataclass(frozen=True)
class Comparison:
    """A benchmark beside those before it.

    Attributes:
        before: their rows; None where there are none.
        nights: how many there are.
    """

    before: pl.DataFrame | None
    nights: int
    changes: tuple[NightlyChange, ...]

    @property
    def regressions(self) -> tuple[str, ...]:
        """Who is worse than before, beyond chance; a sentence each."""
        return tuple(str(change) for change in self.changes if change.is_regression)


def hosted_of(config: BenchmarkConfig) -> list[ContenderSpec]:
    """The models of a benchmark that somebody else serves.

    Raises:
        ConfigError: a key is not set.
    """
    return list_hosted(config, Variables().keys())


def compare(run: BenchmarkRun, measured: Measured) -> Comparison:
    """Set the rows of a benchmark against those of the model's benchmarks before."""
    before = results_before(run.store, run.name, run.id.id, run.config.compare_nights)
    nights = before["run"].n_unique()
    if not nights:
        return Comparison(None, 0, ())
    found = changes(measured.frame, before, measured.figure.is_share)
    return Comparison(before, nights, tuple(found))
