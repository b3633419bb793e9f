"""Every command of `precis`, by its words."""

from collections.abc import Iterator
from typing import Any

from typer.core import TyperGroup

from precis.commands.main import COMMANDS, load

WITH_PREFECT = ("rehearse", "train", "up", "worker", "doctor", "secret", "stop", "runs delete")
"""The commands that talk to a Prefect server."""


def all_commands() -> list[str]:
    """Return every command of the tree, such as `runs list`."""
    found: list[str] = []
    for name in COMMANDS:
        found += _leaves(load(name), (name,))
    return found


def _leaves(command: Any, words: tuple[str, ...]) -> Iterator[str]:
    if not isinstance(command, TyperGroup):
        yield " ".join(words)
        return
    for name, inner in command.commands.items():
        yield from _leaves(inner, (*words, name))
