"""The `precis` command."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, NoReturn

import typer
from pydantic import ValidationError
from rich.console import Console

from deployments import server as prefect_server
from precis.environment import Environment
from precis.errors import PrecisError
from precis.judge.cli import app as judge_app

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
app.add_typer(judge_app, name="judge")
console = Console(highlight=False)


@app.callback()
def precis() -> None:
    """Train a small open model to write summaries that keep the facts."""


@app.command()
def rehearse(
    steps: Annotated[int, typer.Option(min=1, help="Steps to train.")] = 30,
    documents: Annotated[
        str, typer.Option(help="`bundled`, or a parquet, JSONL or CSV file or folder.")
    ] = "bundled",
    seed: Annotated[int, typer.Option(help="Seed of everything that is drawn.")] = 1,
    store: Annotated[str, typer.Option(help="Folder for checkpoints and results.")] = "",
    take_over: Annotated[
        bool, typer.Option(help="Stop another rehearsal of this seed, and go on in its place.")
    ] = False,
    fresh: Annotated[bool, typer.Option(help="Forget an earlier rehearsal of this seed.")] = False,
) -> None:
    """Run the whole pipeline on this machine: no account, no key, no GPU, about a minute."""
    _quiet()
    with console.status("Starting …"), _sentences():
        server = prefect_server.find_or_start()
        from deployments.rehearsal import forget, rehearsal_config, rehearse

        config = rehearsal_config(steps, documents, seed, store or Environment().store, take_over)
        if fresh:
            forget(config)
    with _sentences():
        rehearse(config, server, console)
    console.print(f"Prefect  {server.ui}", soft_wrap=True)
    if server.ours:
        console.print("         It stays up for a look; `make stop` stops it.")


@app.command()
def stop() -> None:
    """Stop the Prefect server that a rehearsal started."""
    with _sentences():
        stopped = prefect_server.stop()
    console.print("The Prefect server is stopped." if stopped else "No Prefect server is running.")


def _quiet() -> None:
    """Keep the terminal for the progress bar; the logs are in Prefect's UI."""
    warnings.filterwarnings("ignore")
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
    os.environ.setdefault("PREFECT_LOGGING_ROOT_LEVEL", "CRITICAL")


@contextmanager
def _sentences() -> Iterator[None]:
    """Turn our own errors, and settings that don't fit, into a sentence on the terminal."""
    try:
        yield
    except PrecisError as error:
        _fail(str(error))
    except ValidationError as error:
        for problem in error.errors(include_url=False):
            where = ".".join(map(str, problem["loc"]))
            console.print(f"{where}: {problem['msg']}", style="red", markup=False)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        _fail("Interrupted. The same command continues from the last committed step.")


def _fail(sentence: str) -> NoReturn:
    console.print(sentence, style="red", markup=False, soft_wrap=True)
    raise typer.Exit(1) from None


if __name__ == "__main__":
    app()
