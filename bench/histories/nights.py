"""How long it takes to set a benchmark beside those of the nights before, where there are many."""

import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import polars as pl
import typer
from rich.console import Console
from rich.table import Table

from bench.histories.places import Place, environment_of, places
from bench.histories.timing import LIMIT_S
from bench.histories.written import write_nights
from precis.store import Store

_MODEL = "summarizer"

_COMPARE = """
import sys, time
import polars as pl
from precis.config import BenchmarkConfig
from precis.records.results import results_before
from precis.report.run_comparison import newest_rows
from precis.statistics.nights import changes
from precis.store import open_store

store = open_store(sys.argv[1])
tonight = pl.read_parquet(sys.argv[3])
for number in range(int(sys.argv[4]) + 1):
    began = time.perf_counter()
    nights = BenchmarkConfig(model=sys.argv[2]).compare_nights
    before = results_before(store, sys.argv[2], tonight["run"][0], nights)
    assert before["run"].n_unique() == nights
    assert changes(tonight, before)
    compared = time.perf_counter()
    assert len(newest_rows(store, sys.argv[2]))
    if number:
        print(compared - began, time.perf_counter() - compared)
"""
"""What a benchmark's flow does when it has measured, in the process that it has been in for long;
and what `precis runs compare` does for each of its two runs."""


def nights(
    count: Annotated[int, typer.Option(help="Nights of the model.")] = 1000,
    trip_ms: Annotated[float, typer.Option(help="Way to the far bucket and back.")] = 30,
    rounds: Annotated[int, typer.Option(help="How often it is done.")] = 5,
    beside: Annotated[str, typer.Option(help="Another version's checkout.")] = "",
) -> None:
    """Write the nights to a folder and to a bucket, then compare one more with the last seven."""
    versions = [str(Path.cwd()), *([beside] if beside else [])]
    table = Table(title=f"a benchmark after {count:,} nights, seconds (median)")
    for column in ("store", "", "this version", "the other", "limit"):
        table.add_column(column, justify="left" if column in ("store", "") else "right")
    slow = []
    written: list[pl.DataFrame] = []

    def write(store: Store) -> None:
        written.append(write_nights(store, _MODEL, count))

    for place in places(write, trip_ms):
        taken = [_medians(one, place, written[-1], rounds) for one in versions]
        for which, name in enumerate(("compared with those before", "newest results read")):
            others = f"{taken[1][which]:.2f}" if beside else ""
            table.add_row(place.name, name, f"{taken[0][which]:.2f}", others, f"{LIMIT_S:g}")
            slow += [f"{name}, {place.name}"] if taken[0][which] > LIMIT_S else []
    Console().print(table)
    if slow:
        raise SystemExit(f"Over {LIMIT_S:g} s: {'; '.join(slow)}.")


def _medians(version: str, place: Place, tonight: pl.DataFrame, rounds: int) -> Sequence[float]:
    """The median seconds of both, in a process of that version."""
    with TemporaryDirectory() as folder:
        tonight.write_parquet(f"{folder}/tonight.parquet")
        arguments = [place.store.url, _MODEL, f"{folder}/tonight.parquet", str(rounds)]
        environment: Mapping[str, str] = {**environment_of(place), "PYTHONPATH": version}
        done = subprocess.run(
            [sys.executable, "-c", _COMPARE, *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    both = [list(map(float, line.split())) for line in done.stdout.splitlines()]
    return [statistics.median(column) for column in zip(*both, strict=True)]
