"""Rollouts and benchmarks for W&B: tables, pictures, and the results as a file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from precis.environments.show import plain_conversation
from precis.observe.wandb import WandbLog
from precis.records.results import write_results
from precis.records.rollout import Rollout
from precis.report.benchmark_charts import charts_of
from precis.report.benchmark_view import Benchmark

_SCENARIO_MAX = 2000
"""The most characters of each message before the first answer; the scenario's id tells the rest."""


def sample_table(
    rollouts: Sequence[Sequence[Rollout]],
) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """Return the columns and rows of a table of rollouts, worst first, unscored last."""
    everyone = [one for group in rollouts for one in group if one.calls]
    everyone.sort(key=lambda one: (one.reward is None, one.reward or 0.0))
    names = tuple(dict.fromkeys(name for one in everyone for name in one.metrics))
    rows: list[tuple[Any, ...]] = []
    for one in everyone:
        metrics = (one.metrics.get(name) for name in names)
        said = (one.text, plain_conversation(one, _SCENARIO_MAX))
        rows.append((one.scenario.id, one.reward, *metrics, one.score.cause or "", *said))
    return ("scenario", "reward", *names, "why", "text", "conversation"), rows


def tell_benchmark(log: WandbLog, model: str, benchmark: Benchmark, folder: Path) -> None:
    """Log the accuracies of complete contenders, the charts, and the rows as an artifact. `folder`
    is for the files, which must exist until the log is finished."""
    metrics = {}
    for standing in benchmark.standings:
        if standing.accuracy and standing.complete:
            metrics[f"benchmark/{standing.contender}"] = standing.accuracy.mean
    log.log(None, metrics)
    paths = {}
    for chart_name, chart in charts_of(benchmark).items():
        paths[f"benchmark/{chart_name}"] = path = folder / f"{chart_name}.png"
        path.write_bytes(chart.png())
    log.images(paths)
    write_results(benchmark.frame, folder / "results.parquet")
    log.results(f"{model}-results", folder / "results.parquet")
