"""The benchmark's steps: who takes part, what each achieves, and the report."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
from prefect import task
from prefect.artifacts import acreate_markdown_artifact

from precis.benchmark import (
    TRAINED,
    Entry,
    checkpoints_to_take,
    curve_of,
    measure,
    measure_ceiling,
    step_metrics,
)
from precis.checkpoints import committed_steps
from precis.config import BenchmarkConfig
from precis.documents import Corpus
from precis.errors import ConfigError
from precis.ledger import stored_ledger
from precis.report import wording
from precis.report.benchmark import Benchmark, benchmark_of
from precis.report.canvas import DARK
from precis.report.html import report_html
from precis.report.markdown import benchmark_report
from precis.report.standings import Contender
from precis.results import write_results
from precis.run import Services, trainable
from precis.store import Store, open_store
from tasks.artifacts import artifact_key
from tasks.judging import judge_slots
from tasks.policy import RETRIED


@dataclass(frozen=True)
class BenchmarkReport:
    """Where a benchmark's results lie in the store, and its standings as text.

    Attributes:
        standings: contender, accuracy with interval, words, share over the limit; best first.
    """

    model: str
    steps: int
    folder: str
    standings: tuple[tuple[str, str, str, str], ...]


class Round:
    """A benchmark at work, and what it has measured so far. (Not a dataclass: see `Run`.)"""

    def __init__(self, config: BenchmarkConfig, corpus: Corpus, services: Services) -> None:
        self.config, self.corpus, self.services = config, corpus, services
        self.store = open_store(config.store)
        self.frames: list[pl.DataFrame] = []
        self.ceiling: float | None = None
        self._before = services.judge.spend

    @property
    def spent_usd(self) -> float:
        """What judging has cost since this benchmark began, in dollars."""
        return self.services.judge.spend.since(self._before).usd

    @property
    def name(self) -> str:
        return self.config.model


@task(name="line up", task_run_name="line up {round.name} and baselines", **RETRIED)
async def line_up(round: Round) -> list[Entry]:
    """The checkpoints, served by the trainer, and the baselines.

    Raises:
        ConfigError: the model was trained on other documents than the benchmark's.
        StoreError: the store holds no such model.
    """
    store, trainer, standins = round.store, round.services.trainer, round.services.standins
    model = trainable(round.config)
    ledger = await asyncio.to_thread(stored_ledger, store, round.name)
    if ledger.corpus != round.corpus.digest:
        raise ConfigError(
            f"{round.name!r} was trained on other documents or another split than these: some of "
            "the held-out ones may have been trained on. Give the benchmark the run's documents."
        )
    committed = await asyncio.to_thread(committed_steps, store, round.name)
    steps = checkpoints_to_take(committed, round.config.every)
    for step in steps:
        await trainer.fetch(model, step, store.url, round.name)
    await model.register(trainer)
    url, key = str(model.inference_base_url), str(model.inference_api_key)
    trained = [
        Entry(Contender(TRAINED, step), model.get_inference_name(step), url, key) for step in steps
    ]
    at = f"{standins.url}/v1"
    rules = [Entry(Contender(name), name, at, standins.token) for name in round.config.baselines]
    return [*trained, *rules]


@task(name="measure", task_run_name="measure {entry.contender}", **RETRIED)
async def measure_entry(round: Round, entry: Entry) -> None:
    """One contender on every held-out document."""
    judge, rollouts = round.services.judge, round.config.rollouts
    async with judge_slots(round.config):
        round.frames.append(await measure(entry, round.corpus, judge, rollouts, round.name))


@task(name="ceiling", task_run_name="ceiling: full documents", **RETRIED)
async def measure_full(round: Round) -> None:
    """What the judge answers from the full documents: more can't be had."""
    async with judge_slots(round.config):
        round.ceiling = await measure_ceiling(round.store, round.services.judge, round.corpus)


@task(name="report", task_run_name="report on {round.name}", **RETRIED)
async def publish_report(round: Round) -> BenchmarkReport:
    """Put results, charts and page into the store, and the report into Prefect's UI."""
    ledger = await asyncio.to_thread(stored_ledger, round.store, round.name)
    benchmark = benchmark_of(pl.concat(round.frames), curve_of(ledger), round.ceiling)
    folder = f"{round.name}/benchmarks/{ledger.next_step:04d}/"
    facts = {
        "Model": round.name,
        "Judge": round.services.judge.identity["model"],
        "Seed": str(round.config.seed),
        "Judging": f"${round.spent_usd:,.2f}",
    }
    page = report_html(benchmark, [step_metrics(ledger, one.step) for one in ledger.steps], facts)
    await asyncio.to_thread(_store_report, round.store, folder, benchmark, page)
    await acreate_markdown_artifact(
        key=artifact_key(round.name, "benchmark"),
        markdown=benchmark_report(benchmark),
        description=f"Benchmark of {round.name} after {ledger.next_step} steps",
    )
    return BenchmarkReport(
        round.name, ledger.next_step, f"{round.store.url}/{folder}", _lines(benchmark)
    )


def _lines(benchmark: Benchmark) -> tuple[tuple[str, str, str, str], ...]:
    return tuple(
        (
            wording.name(each.contender),
            str(each.accuracy or "not scored"),
            wording.number(each.words),
            wording.percent(each.over_length),
        )
        for each in benchmark.shown
    )


def _store_report(store: Store, folder: str, benchmark: Benchmark, page: str) -> None:
    with TemporaryDirectory() as temporary:
        results = Path(temporary) / "results.parquet"
        write_results(benchmark.frame, results)
        store.upload(results, f"{folder}results.parquet")
    for name, chart in benchmark.charts().items():
        store.put(f"{folder}{name}.svg", chart.svg().encode())
        store.put(f"{folder}{name}-dark.svg", chart.svg(DARK).encode())
        store.put(f"{folder}{name}.png", chart.png())
    store.put(f"{folder}report.html", page.encode())
