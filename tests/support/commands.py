"""Every command of `precis`, by its words."""

from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperGroup

from cli.main import app

WITH_PREFECT = ("rehearse", "up", "worker", "doctor", "secret", "stop", "runs delete")
"""The commands that talk to a Prefect server."""


def all_commands() -> list[str]:
    """Return every command of the tree, such as `runs list`."""
    return list(_leaves(typer.main.get_command(app), ()))


def _leaves(command: Any, words: tuple[str, ...]) -> Iterator[str]:
    if not isinstance(command, TyperGroup):
        yield " ".join(words)
        return
    for name, inner in command.commands.items():
        yield from _leaves(inner, (*words, name))
