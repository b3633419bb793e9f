"""A benchmark at work: what its contenders share while they are measured."""

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from precis.benchmark.cache import ResultCache
from precis.benchmark.client import ContenderClient
from precis.benchmark.contender import ContenderSpec
from precis.benchmark.lineup import list_hosted
from precis.benchmark.measure import BenchmarkId
from precis.benchmark.referee import BenchmarkJudge
from precis.config import BenchmarkConfig
from precis.environment import Environment
from precis.environments.summaries.judge import JudgeClient
from precis.llm.budget import Budget
from precis.records.documents import Corpus
from precis.records.results import results_before
from precis.records.summary import JudgedSummary
from precis.statistics.nights import NightlyChange, changes
from precis.store import open_store
from precis.task import task_of


class BenchmarkRun:
    """What a benchmark works with; nothing of what it finds out is kept here.

    Not a dataclass: Prefect walks through those, and all they hold, on every task call.

    Args:
        tell: tells the observers of each outcome.

    Attributes:
        task: what the contenders are asked to do.
        id: when it began, and what its results are filed under.
        budget: what contenders and judge together have spent, and still may.
        cache: summaries and verdicts that were paid for already.
        referee: the judge, as the benchmark asks it.
    """

    def __init__(
        self,
        config: BenchmarkConfig,
        corpus: Corpus,
        judge: JudgeClient,
        tell: Callable[["BenchmarkRun", ContenderSpec, JudgedSummary], None],
    ) -> None:
        self.config = config
        self.corpus = corpus
        self.judge = judge
        self._tell = tell
        self.task = task_of(config.rollouts)
        self.store = open_store(config.store)
        self.id = BenchmarkId.now()
        self.cache = ResultCache(self.store)
        before = judge.spend
        self.budget = Budget(config.dollars_max, lambda: judge.spend.since(before).usd)
        # What the lexical judge says is free and certain.
        self._judge_costs = config.judge.provider != "lexical"
        kept = self.cache if self._judge_costs else None
        self.referee = BenchmarkJudge(judge, config.judge, self.task, self.budget, kept)

    @property
    def name(self) -> str:
        return self.config.model

    def tell(self, contender: ContenderSpec, outcome: JudgedSummary) -> None:
        """Tell the observers what became of a contender's summary; takes no time."""
        self._tell(self, contender, outcome)

    def client_of(self, contender: ContenderSpec) -> ContenderClient:
        """A client of a contender; what is free and certain anyway is not kept."""
        keeps = contender.identity is not None and (contender.paid or self._judge_costs)
        return ContenderClient(contender, self.task, self.budget, self.cache if keeps else None)


@dataclass(frozen=True)
class Measured:
    """What all contenders have achieved.

    Attributes:
        frame: their rows, in `precis.records.results.SCHEMA`.
        questions: what their summaries were asked, in `precis.records.questions.QUESTIONS`.
        ceiling: the judge's accuracy on the full documents; None where it failed on one.
    """

    frame: pl.DataFrame
    questions: pl.DataFrame
    ceiling: float | None


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
    return list_hosted(config, task_of(config.rollouts), Environment().keys())


def compare(run: BenchmarkRun, frame: pl.DataFrame) -> Comparison:
    """Set the rows of a benchmark against those of the model's benchmarks before."""
    before = results_before(run.store, run.name, run.id.id, run.config.compare_nights)
    nights = before["run"].n_unique()
    if not nights:
        return Comparison(None, 0, ())
    return Comparison(before, nights, tuple(changes(frame, before)))
