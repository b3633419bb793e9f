"""Summaries and standings as W&B shows them: tables, pictures, and the results as a file."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from precis.observe.wandb import WandbLog
from precis.records.results import write_results
from precis.report.benchmark_view import Benchmark
from precis.report.wording import name
from precis.sampling.rollouts import Rollout

SAMPLE_COLUMNS = ("document", "topic", "accuracy", "second", "words", "why", "summary")
_STANDING_COLUMNS = ("contender", "accuracy", "low", "high", "words", "documents", "usd", "ranked")


def sample_rows(rollouts: Sequence[Sequence[Rollout]]) -> list[tuple[Any, ...]]:
    """A row in SAMPLE_COLUMNS for each summary, the worst first; the unscored come last."""
    rows = []
    for group in rollouts:
        rows += [_sample(rollout) for rollout in group if rollout.summary]
    return sorted(rows, key=lambda row: (row[2] is None, row[2] or 0.0))


def tell_benchmark(log: WandbLog, model: str, benchmark: Benchmark, folder: Path) -> None:
    """Log the standings, the charts, and the rows as an artifact.

    Args:
        folder: for the files, which must stay until the log is finished.
    """
    metrics = {}
    for standing in benchmark.standings:
        if standing.accuracy:
            metrics[f"benchmark/{standing.contender}"] = standing.accuracy.mean
    log.log(None, metrics)
    log.table(None, "benchmark/standings", _STANDING_COLUMNS, list(_standings(benchmark)))
    paths = {}
    for chart_name, chart in benchmark.charts().items():
        paths[f"benchmark/{chart_name}"] = path = folder / f"{chart_name}.png"
        path.write_bytes(chart.png())
    log.images(None, paths)
    write_results(benchmark.frame, folder / "results.parquet")
    log.artifact(f"{model}-results", "results", folder / "results.parquet")


def _sample(rollout: Rollout) -> tuple[Any, ...]:
    document = rollout.document
    return (
        document.id,
        document.topic,
        rollout.verdict.reward,
        rollout.second.reward if rollout.second else None,
        rollout.words,
        rollout.verdict.cause or rollout.disqualified or "",
        rollout.text,
    )


def _standings(benchmark: Benchmark) -> Iterator[tuple[Any, ...]]:
    for each in benchmark.standings:
        accuracy = each.accuracy
        figures = (accuracy.mean, accuracy.low, accuracy.high) if accuracy else (None,) * 3
        yield (name(each.contender), *figures, each.words, each.documents, each.usd, each.complete)
