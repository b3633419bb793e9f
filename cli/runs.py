"""`precis runs`: what a store holds, one run of it, its records as files, and the way back."""

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from cli.tables import checkpoints_table, facts, runs_table, steps_table
from cli.terminal import fail, say, sentences
from precis.environment import Environment
from precis.run.checkpoints import committed_steps
from precis.run.export import Format, export
from precis.run.overview import Overview, Unreadable, kept_checkpoints, overview, overviews
from precis.run.restart import reached
from precis.run.restart import restart as restart_run
from precis.store import Store, open_store

app = typer.Typer(no_args_is_help=True, help="The runs of a store.")

StoreOption = Annotated[
    str,
    typer.Option(
        "--store", help="Folder or s3://bucket/prefix; else PRECIS_STORE, or .precis/store."
    ),
]
_WIDTH_MAX = 10_000

Model = Annotated[str, typer.Argument(help="Name of the model.")]


@app.command("list")
def list_runs(store: StoreOption = "") -> None:
    """List the runs of a store: how far each is, what it reached, what it cost, who works on it."""
    with sentences():
        at = _open(store)
        found = overviews(at, datetime.now(UTC))
        if not found:
            _console().print(f"{at.url} holds no runs.", soft_wrap=True)
        runs = [one for one in found if isinstance(one, Overview)]
        if runs:
            _print_table(runs_table(runs))
        for one in found:
            if isinstance(one, Unreadable):
                say(f"{one.model}: {one.why}")


@app.command()
def show(
    model: Model,
    store: StoreOption = "",
    last: Annotated[int, typer.Option(min=1, help="Newest steps to list.")] = 20,
) -> None:
    """Show one run: its settings, its steps, its checkpoints and whether they are whole."""
    with sentences():
        at = _open(store)
        run = overview(at, model, datetime.now(UTC))
        checkpoints = kept_checkpoints(at, model)
        told = facts(run)
        width = max(len(name) for name, _ in told)
        for name, value in told:
            _console().print(f"{name:<{width}} {value}", markup=False, soft_wrap=True)
        for table in (steps_table(run.ledger, last), checkpoints_table(checkpoints)):
            _console().print()
            _print_table(table)


@app.command("export")
def export_run(
    model: Model,
    to: Annotated[Path, typer.Option(help="Folder to write; it is made if need be.")],
    store: StoreOption = "",
    file_format: Annotated[
        Format, typer.Option("--format", help="Of metrics and trajectories.")
    ] = "parquet",
    checkpoint: Annotated[
        int | None, typer.Option(min=0, help="Bring this step's checkpoint as well, verified.")
    ] = None,
) -> None:
    """Write a run's metrics, trajectories, ledger and manifests to a folder."""
    with sentences():
        try:
            files = export(_open(store), model, to, file_format, checkpoint)
        except OSError as error:
            fail(f"Can't write {error.filename}: {error.strerror}. Choose another folder.")
        for file in files:
            _console().print(str(file), markup=False, soft_wrap=True)


@app.command()
def restart(
    model: Model,
    step: Annotated[int, typer.Option(min=0, help="The step to go back to.")],
    store: StoreOption = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")] = False,
) -> None:
    """Take a run back to an earlier step; what came after is deleted, once you agree.

    To keep it, begin another run with `from_checkpoint` instead.
    """
    with sentences():
        at = _open(store)
        if not yes:
            _ask_before_deleting(at, model, step)
        ledger = asyncio.run(restart_run(at, model, step))
        _console().print(
            f"{model} is at step {ledger.next_step} again, and goes on from there when it is next "
            f"started. What it has spent, ${ledger.usd:.2f}, stays counted.",
            markup=False,
            soft_wrap=True,
        )


def _ask_before_deleting(store: Store, model: str, step: int) -> None:
    """Go on only where somebody agrees to lose what came after a step."""
    ledger = reached(store, model, step)
    later = [one for one in committed_steps(store, model) if one > step]
    lost = f"{ledger.next_step - step} steps and {len(later)} checkpoints after step {step}"
    question = f"This deletes the {lost} of {model} in {store.url}, for good. Go on?"
    if not _is_watched():
        fail(f"{question} Nobody is there to answer: say --yes.")
    if not typer.confirm(question):
        fail("Nothing was deleted.")


def _is_watched() -> bool:
    return sys.stdin.isatty()


def _print_table(table: Table) -> None:
    """Print a table whole, in lines longer than the terminal's if need be: half a name is none."""
    console = _console()
    unbounded = console.options.update(width=_WIDTH_MAX)
    needed = Measurement.get(console, unbounded, table).maximum
    Console(highlight=False, width=max(console.width, needed)).print(table)


def _open(url: str) -> Store:
    return open_store(url or Environment().store)


def _console() -> Console:
    return Console(highlight=False)  # as wide as the terminal is now
