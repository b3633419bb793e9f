"""The `precis` command, which imports a subcommand only when it is run."""

import signal
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from precis import __version__


class Command(NamedTuple):
    """The place of a command, as `module:name` of a function or a Typer, and its help."""

    target: str
    help: str


COMMANDS = {
    "summarize": Command(
        "precis.commands.summarize:summarize",
        "Summarize files with a model trained here, or with any on a server.",
    ),
    "play": Command(
        "precis.commands.play:play_agent",
        "Play one episode of an agent, with a model trained here or any on a server.",
    ),
    "rehearse": Command(
        "cli.commands:rehearse",
        "Run the whole pipeline on this machine: no account, no key, no GPU, about a minute.",
    ),
    "train": Command(
        "cli.commands:train",
        "Train an agent of your own, and show what it achieves before and after.",
    ),
    "up": Command(
        "cli.commands:up",
        "Start server and worker, deploy everything, and work until Ctrl-C.",
    ),
    "worker": Command(
        "cli.commands:worker",
        "Work for a running server; when stopped, let the current runs finish.",
    ),
    "doctor": Command(
        "cli.commands:doctor",
        "Check what a run needs, and explain how to fix what is missing.",
    ),
    "secret": Command(
        "cli.commands:secret",
        "Keep a key in a Secret block of the Prefect server; asks for it, or reads one line.",
    ),
    "stop": Command(
        "cli.commands:stop",
        "Stop the Prefect server that a rehearsal started.",
    ),
    "judge": Command(
        "precis.commands.judge:app",
        "The judge's cache, and an audit of its verdicts.",
    ),
    "model": Command(
        "precis.commands.model:app",
        "Trained models: to export, serve and publish.",
    ),
    "questions": Command(
        "precis.commands.questions:app",
        "Questions for documents that have none.",
    ),
    "runs": Command(
        "cli.runs:app",
        "The live runs, and the runs of a store.",
    ),
}
"""All commands by name. Their modules take seconds to import, so help and shell completion read
this table instead."""


class Commands(TyperGroup):
    """A group that lists the table's commands, and imports only the one that is run.

    The commands in `cli` need a checkout, so the installed library does not list them.
    """

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, command in COMMANDS.items():
            package = command.target.partition(".")[0]
            hidden = find_spec(package) is None
            self.add_command(TyperCommand(name, help=command.help, hidden=hidden))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Find the command named by the first argument, as typer does, and import it."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, load(name) if name else command, rest


app = typer.Typer(cls=Commands, no_args_is_help=True, pretty_exceptions_enable=False)


def load(name: str) -> Any:
    """Import a command of the table, and return typer's object for it; exit without a checkout."""
    module, _, attribute = COMMANDS[name].target.partition(":")
    try:
        target = getattr(import_module(module), attribute)
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)  # the command has not started yet
    except ModuleNotFoundError as error:
        if error.name not in {"cli", module}:
            raise
        sys.exit(
            f"`precis {name}` needs a checkout of Précis, and this is its library alone: clone "
            "the repository and run `make install` in it."
        )
    group = typer.Typer()
    if isinstance(target, typer.Typer):
        group.add_typer(target, name=name)
    else:
        group.command(name)(target)
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
