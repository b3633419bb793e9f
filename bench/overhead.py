"""What Prefect adds to a training step, on SQLite and on PostgreSQL.

    python bench/overhead.py [--steps 30] [--pause-s 0.5] [--rounds 2]

The same steps run through the flow and as the bare functions beneath it, at the same time, beside
one server on this machine. With one seed they sample, judge and train alike, so they are compared
step by step: by the clock, as the median of the differences; and in CPU time of the flow's process,
which a busy machine changes little, as their mean, in which the drawing of reports counts too. Both
have their 95 % bootstrap interval. It fails where either is over 150 ms, which is 1.5 % of a step
that takes ten seconds.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer
from rich.console import Console
from rich.table import Table

from bench.flow.server import Server, server
from precis.config import DocumentsConfig, RolloutsConfig, TrainConfig

Floats = npt.NDArray[np.float64]

LIMIT_MS = 150
DATABASES = ("sqlite", "postgres")


def overhead(
    steps: Annotated[int, typer.Option(help="Steps of each run.")] = 30,
    pause_s: Annotated[float, typer.Option(help="How long each step waits for its model.")] = 0.5,
    rounds: Annotated[int, typer.Option(help="Runs each way.")] = 2,
    database: Annotated[str, typer.Option(help="`sqlite`, `postgres`, or both.")] = "",
) -> None:
    """Run the steps both ways and print what the flow's way takes longer."""
    table = Table(title=f"{rounds} × {steps} steps, each with a pause of {pause_s:g} s")
    for heading in ("Database", "Bare, s a step", "Flow, s a step", "Added, ms", "CPU added, ms"):
        table.add_column(heading, justify="right")
    over = []
    for name in [database] if database else DATABASES:
        with server(name) as up:
            bare, flow = _both_ways(up, steps, pause_s, rounds)
        added, burnt = 1000 * (flow - bare).T
        medians = [f"{median(way[:, 0]):.3f}" for way in (bare, flow)]
        table.add_row(name, *medians, _told(np.median, added), _told(np.mean, burnt))
        over += [name] if max(median(added), np.mean(burnt)) > LIMIT_MS else []
    Console().print(table)
    if over:
        raise SystemExit(f"Prefect adds more than {LIMIT_MS} ms a step on {', '.join(over)}.")


def _both_ways(up: Server, steps: int, pause_s: float, rounds: int) -> tuple[Floats, Floats]:
    """What each step takes, bare and through the flow; both at once, favouring neither."""
    bare = []
    flow = []
    with ThreadPoolExecutor() as both:
        for _ in range(rounds):
            ways = [both.submit(_run, up, mode, steps, pause_s) for mode in ("bare", "flow")]
            bare += ways[0].result()
            flow += ways[1].result()
    return np.array(bare), np.array(flow)


def _run(up: Server, mode: str, steps: int, pause_s: float) -> list[list[float]]:
    """One run in a process, with a store and a cache of replies of its own: seconds and CPU."""
    with TemporaryDirectory() as folder:
        config = instant(steps, f"{folder}/store")
        step_by_step = [sys.executable, "-m", "bench.flow.stepping", mode]
        done = subprocess.run(
            [*step_by_step, config.model_dump_json(), str(pause_s)],
            env={**up.environment, "PRECIS_HOME": folder},
            capture_output=True,
            text=True,
        )
    if done.returncode:
        raise SystemExit(f"The {mode} run failed:\n{done.stderr[-3000:]}")
    seconds: list[list[float]] = json.loads(done.stdout.splitlines()[-1])
    return seconds


def instant(steps: int, store: str) -> TrainConfig:
    """A run whose steps are as small as they get: two documents, four summaries each."""
    return TrainConfig(
        model="instant",
        steps=steps,
        validate_every=10 * steps,
        documents=DocumentsConfig(train_size=40, val_size=4),
        rollouts=RolloutsConfig(groups_per_step=2, rollouts_per_group=4),
        store=store,
        benchmark=False,
    )


def _told(statistic: Callable[..., Any], values: Floats) -> str:
    draws = np.random.default_rng(1).choice(values, (2000, len(values)))
    low, high = np.quantile(statistic(draws, axis=1), (0.025, 0.975))
    return f"{statistic(values):.0f} ({low:.0f} to {high:.0f})"


if __name__ == "__main__":
    typer.run(overhead)
