"""The `precis` command, which imports a subcommand only when it is run."""

import signal
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from precis import __version__

COMMANDS = {
    "summarize": "Summarize files with a model trained here, or with any on a server.",
    "play": "Play one episode of an agent, with a model trained here or any on a server.",
    "rehearse": (
        "Run the whole pipeline on this machine: no account, no key, no GPU, about a minute."
    ),
    "train": "Train an agent of your own, and show what it achieves before and after.",
    "up": "Start server and worker, deploy everything, and work until Ctrl-C.",
    "worker": "Work for a running server; when stopped, let the current runs finish.",
    "doctor": "Check what a run needs, and explain how to fix what is missing.",
    "secret": "Keep a key in a Secret block of the Prefect server; asks for it, or reads one line.",
    "stop": "Stop the Prefect server that a rehearsal started.",
    "judge": "The judge's cache, and an audit of its verdicts.",
    "model": "Trained models: to export, serve and publish.",
    "questions": "Questions for documents that have none.",
    "runs": "The live runs, and the runs of a store.",
}
"""The help of all commands by name. Their modules take seconds to import, so help and shell
completion read this table instead."""
_ALONE = ("summarize", "play", "judge", "model", "questions")
"""The commands that need no checkout."""


def module_of(name: str) -> str:
    """Return the module of a command: a Typer named `app`, or a function with its name."""
    if name in _ALONE:
        return f"precis.commands.{name}"
    return "cli.runs" if name == "runs" else "cli.commands"


class Commands(TyperGroup):
    """A group that lists the table's commands, and imports only the one that is run.

    The commands in `cli` need a checkout, so the installed library does not list them.
    """

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, text in COMMANDS.items():
            hidden = name not in _ALONE and find_spec("cli") is None
            self.add_command(TyperCommand(name, help=text, hidden=hidden))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Find the command named by the first argument, as typer does, and import it."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, load(name) if name else command, rest


app = typer.Typer(cls=Commands, no_args_is_help=True, pretty_exceptions_enable=False)


def load(name: str) -> Any:
    """Import a command of the table, and return typer's object for it."""
    try:
        module = import_module(module_of(name))
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)  # the command has not started yet
    group = typer.Typer()
    if hasattr(module, "app"):
        group.add_typer(module.app, name=name)
    else:
        group.command(name)(getattr(module, name))
    return typer.main.get_group(group).commands[name]


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"precis {__version__}")
        raise typer.Exit


@app.callback()
def precis(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version, and exit."
        ),
    ] = False,
) -> None:
    """Train a small open model to write summaries that keep the facts, or an agent of your own."""
