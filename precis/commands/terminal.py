"""The output of the commands, and their errors: sentences without tracebacks."""

import errno
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Annotated, NoReturn

import typer
from pydantic import ValidationError
from rich.console import Console

from precis.errors import PrecisError, without_controls, without_passwords
from precis.settings.problems import problems_in

CONTINUES = "The same command continues from the last committed step."

ServerUrl = Annotated[
    str, typer.Option(help="An OpenAI-compatible server, with its /v1; PRECIS_API_KEY.")
]
StoreOption = Annotated[
    str,
    typer.Option(
        "--store", help="Folder or s3://bucket/prefix; else PRECIS_STORE, or .precis/store."
    ),
]

plain_console = partial(Console, highlight=False, markup=False, emoji=False)
"""Makes a console that prints text as it is: a path may have `[new]` or `:key:` in it."""
errors = plain_console(stderr=True)


@contextmanager
def sentences() -> Iterator[None]:
    """Turn an error into a sentence and the command's exit status.

    Our own errors exit with 1, invalid settings with 2.
    """
    try:
        yield
    except PrecisError as error:
        fail(str(error))
    except ValidationError as error:
        for problem in problems_in(error):
            say(problem)
        raise typer.Exit(2) from None
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):  # at a write, which names no file
            fail(f"Can't write: {error.strerror}. Free some space, or choose another place.")
        if error.filename is None:  # of no file, such as a connection
            raise
        fail(
            f"Can't use {error.filename}: {error.strerror}. Let this user read and write there, or "
            "choose another place (PRECIS_HOME for .precis)."
        )


def say(sentence: str, style: str = "red") -> None:
    """Print a problem, and continue."""
    shown = without_controls(without_passwords(sentence))
    errors.print(shown, style=style, soft_wrap=True)


def warn(sentence: str) -> None:
    say(sentence, "yellow")


def note(sentence: str) -> None:
    """Print a remark on a command's results."""
    say(sentence, "")


def echo(text: str) -> None:
    """Print a result without terminal escapes, since it may be untrusted."""
    typer.echo(without_controls(text))


def agree(question: str, declined: str) -> None:
    """Ask for a yes; without one exit, and say what was not done."""
    if not sys.stdin.isatty():
        fail(f"{question} There is no terminal to answer from: say --yes.")
    if not typer.confirm(question):
        fail(declined)


def fail(sentence: str) -> NoReturn:
    """Print why the command can't continue, and exit."""
    say(sentence)
    raise typer.Exit(1) from None
