"""How long it takes to look at the runs of a store that holds very many."""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from bench.histories.places import Place, environment_of, places
from bench.histories.timing import LIMIT_S
from bench.histories.written import run_name, write_nights, write_runs
from precis.store import Store

_OURS = Path(sys.executable).with_name("precis")


def runs(
    count: Annotated[int, typer.Option(help="Runs in the store.")] = 1000,
    steps: Annotated[int, typer.Option(help="Steps of each.")] = 30,
    trip_ms: Annotated[float, typer.Option(help="Way to the far bucket and back.")] = 30,
    rounds: Annotated[int, typer.Option(help="How often each command is run.")] = 5,
    beside: Annotated[
        str, typer.Option(help="Another version's `precis`, to take turns with.")
    ] = "",
) -> None:
    """Write the runs to a folder and to a bucket, then time `precis runs` on each."""
    programs = [str(_OURS), *([beside] if beside else [])]
    table = Table(title=f"`precis runs` on {count:,} runs of {steps} steps, seconds (median)")
    for column in ("store", "command", "this version", "requests", "the other", "requests"):
        table.add_column(column, justify="left" if column in ("store", "command") else "right")
    for program in programs:
        _time([program, "--version"], os.environ)  # whose first start compiles it
    slow = []
    for place in places(lambda store: _write(store, count, steps), trip_ms):
        for command in _commands(count):
            taken = _times(programs, command, place, rounds)
            words = " ".join(command)
            cells = []
            for seconds, requests in taken:
                cells += [f"{seconds:.2f}", f"{requests:,}" if requests else ""]
            table.add_row(place.name, words, *cells)
            slow += [f"{words}, {place.name}"] if taken[0][0] > LIMIT_S else []
    Console().print(table)
    if slow:
        raise SystemExit(f"Over {LIMIT_S:g} s: {'; '.join(slow)}.")


def _write(store: Store, count: int, steps: int) -> None:
    """The runs; the first and the last have a benchmark each."""
    write_runs(store, count, steps)
    for number in {0, count - 1}:
        write_nights(store, run_name(number), 1)


def _commands(count: int) -> Iterable[Sequence[str]]:
    first = run_name(0)
    last = run_name(count - 1)
    return (["list"], ["list", "--json"], ["show", last], ["compare", first, last])


def _times(
    programs: Sequence[str], command: Sequence[str], place: Place, rounds: int
) -> list[tuple[float, int]]:
    """The median seconds of each program, and the requests that it sends; they take turns."""
    environment = environment_of(place)
    taken: dict[str, list[float]] = {program: [] for program in programs}
    requests = dict.fromkeys(programs, 0)
    for _ in range(rounds):
        for program in programs:
            before = place.requests()
            whole = [program, "runs", *command, "--store", place.store.url]
            taken[program].append(_time(whole, environment))
            requests[program] = place.requests() - before
    return [(statistics.median(taken[program]), requests[program]) for program in programs]


def _time(command: Sequence[str], environment: Mapping[str, str]) -> float:
    began = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return time.perf_counter() - began
