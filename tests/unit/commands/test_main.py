"""The list of commands, which imports none of them."""

import json
import os
import subprocess
import sys

import pytest
from typer.core import TyperGroup
from typer.testing import CliRunner

from precis import __version__
from precis.commands.main import COMMANDS, app, load

MODULES = {command.target.partition(":")[0] for command in COMMANDS.values()}
IMPORTED = """
import json, sys
from precis.__main__ import main
sys.argv[0] = "precis"
try:
    main()
except SystemExit:
    pass
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


def run_precis(*arguments: str, **environment: str) -> tuple[str, set[str]]:
    """Return what `precis` prints, and every module that it imports."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout, set(json.loads(done.stderr))


def test_the_help_lists_every_command_and_imports_none() -> None:
    said, imported = run_precis("--help", COLUMNS="200")
    for name, command in COMMANDS.items():
        assert f"{name} " in said
        assert command.help in said
    assert not imported & {*MODULES, "pydantic"}


def test_the_shell_completes_every_command_and_imports_none_but_the_one_asked_for() -> None:
    said, imported = run_precis(
        _PRECIS_COMPLETE="complete_bash", COMP_WORDS="precis r", COMP_CWORD="1"
    )
    assert said.split() == ["rehearse", "runs"]
    assert not imported & MODULES
    said, imported = run_precis(
        _PRECIS_COMPLETE="complete_bash", COMP_WORDS="precis runs re", COMP_CWORD="2"
    )
    assert said.split() == ["restart", "repair"]
    assert "precis.commands.model" not in imported


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_listed_in_the_words_of_its_own_help(name: str) -> None:
    command = load(name)
    own = command.help.partition("\n\n")[0]
    if isinstance(command, TyperGroup) and command.invoke_without_command:
        return  # its help says what it does by itself, the list what its commands are about
    assert " ".join(own.split()) == COMMANDS[name].help


def test_an_unknown_command_is_named_with_one_like_it() -> None:
    done = CliRunner().invoke(app, ["rehears"], env={"COLUMNS": "200"})
    assert done.exit_code == 2
    version = CliRunner().invoke(app, ["--version"])
    assert version.output == f"precis {__version__}\n"
    assert "No such command 'rehears'. Did you mean 'rehearse'?" in done.output


def test_without_a_checkout_its_commands_are_not_listed_and_say_what_they_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "cli.commands", raising=False)
    monkeypatch.setitem(sys.modules, "cli", None)  # as if it were not there
    listed = CliRunner().invoke(app, ["--help"]).output
    assert "summarize" in listed
    assert "rehearse" not in listed
    with pytest.raises(SystemExit, match="`precis rehearse` needs a checkout of Précis"):
        load("rehearse")
