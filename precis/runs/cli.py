"""`precis runs`: what a store holds, one run of it, its records as files, and the way back."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from precis import restarting
from precis.environment import Environment
from precis.runs.export import Format, export
from precis.runs.overview import Overview, Unreadable, kept_checkpoints, overview, overviews
from precis.runs.tables import checkpoints_table, facts, runs_table, steps_table
from precis.store import Store, open_store
from precis.terminal import fail, say, sentences

app = typer.Typer(no_args_is_help=True, help="The runs of a store.")

StoreOption = Annotated[
    str,
    typer.Option(
        "--store", help="Folder or s3://bucket/prefix; else PRECIS_STORE, or .precis/store."
    ),
]
Model = Annotated[str, typer.Argument(help="Name of the model.")]


@app.command("list")
def list_runs(store: StoreOption = "") -> None:
    """List the runs of a store: how far each is, what it reached, what it cost, who works on it."""
    with sentences():
        at = _opened(store)
        found = overviews(at, datetime.now(UTC))
        if not found:
            _console().print(f"{at.url} holds no runs.", soft_wrap=True)
        elif runs := [one for one in found if isinstance(one, Overview)]:
            _console().print(runs_table(runs))
        for one in found:
            if isinstance(one, Unreadable):
                say(f"{one.model}: {one.why}")


@app.command()
def show(
    model: Model,
    store: StoreOption = "",
    last: Annotated[int, typer.Option(min=1, help="Newest steps to list.")] = 20,
) -> None:
    """Show one run: its steps, its checkpoints and whether they are whole, its digests."""
    with sentences():
        at = _opened(store)
        run, checkpoints = overview(at, model, datetime.now(UTC)), kept_checkpoints(at, model)
        for name, value in facts(run):
            _console().print(f"{name:<10} {value}", markup=False, soft_wrap=True)
        for part in ("", steps_table(run.ledger, last), "", checkpoints_table(checkpoints)):
            _console().print(part)


@app.command("export")
def export_run(
    model: Model,
    to: Annotated[Path, typer.Option(help="Folder to write; it is made if need be.")],
    store: StoreOption = "",
    format: Annotated[Format, typer.Option(help="Of metrics and trajectories.")] = "parquet",
    checkpoint: Annotated[
        int | None, typer.Option(min=0, help="Bring this step's checkpoint as well, verified.")
    ] = None,
) -> None:
    """Write a run's metrics, trajectories, ledger and manifests to a folder."""
    with sentences():
        try:
            files = export(_opened(store), model, to, format, checkpoint)
        except OSError as error:
            fail(f"Can't write {error.filename}: {error.strerror}. Choose another folder.")
        for file in files:
            _console().print(str(file), markup=False, soft_wrap=True)


@app.command()
def restart(
    model: Model,
    step: Annotated[int, typer.Option(min=0, help="The step to go back to.")],
    store: StoreOption = "",
) -> None:
    """Take a run back to an earlier step; what came after is deleted.

    To keep it, begin another run with `from_checkpoint` instead.
    """
    with sentences():
        ledger = asyncio.run(restarting.restart(_opened(store), model, step))
        _console().print(
            f"{model} is at step {ledger.next_step} again, and goes on from there when it is next "
            f"started. What it has spent, ${ledger.usd:.2f}, stays counted.",
            markup=False,
            soft_wrap=True,
        )


def _opened(url: str) -> Store:
    return open_store(url or Environment().store)


def _console() -> Console:
    return Console(highlight=False)  # as wide as the terminal is now
