"""A program of several measurements: each by its name, or all of them."""

from collections.abc import Callable, Sequence

import typer


def program(doc: str | None, commands: Sequence[Callable[..., None]]) -> typer.Typer:
    """The program whose `--help` says `doc`; where no command is named, it runs them all."""
    app = typer.Typer(add_completion=False, help=doc)
    for command in commands:
        app.command()(command)

    @app.callback(invoke_without_command=True)
    def everything(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            for command in commands:
                print(f"-- {command.__name__}", flush=True)
                command()

    return app
