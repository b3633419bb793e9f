"""The `precis` command: its list, which imports no command; what is typed to it, which is checked
before anything is asked for; and its interruption."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType

import pytest
import typer
from typer.core import TyperGroup
from typer.testing import CliRunner

from cli.commands import _explain_interrupt
from precis import __version__
from precis.__main__ import main
from precis.commands.main import COMMANDS, app, load, module_of
from precis.commands.terminal import sentences

MODULES = set(map(module_of, COMMANDS))
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
    for name, text in COMMANDS.items():
        assert f"{name} " in said
        assert text in said
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


@pytest.mark.parametrize("command", {module_of(name): name for name in COMMANDS}.values())
def test_a_tab_behind_a_command_imports_nothing_slow(command: str) -> None:
    _, imported = run_precis(
        _PRECIS_COMPLETE="complete_bash", COMP_WORDS=f"precis {command} --", COMP_CWORD="2"
    )
    assert module_of(command) in imported
    assert not imported & {"precis.config", "precis.environment", "httpx", "numpy", "polars"}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_listed_in_the_words_of_its_own_help(name: str) -> None:
    command = load(name)
    own = command.help.partition("\n\n")[0]
    if isinstance(command, TyperGroup) and command.invoke_without_command:
        return  # its help says what it does by itself, the list what its commands are about
    assert " ".join(own.split()) == COMMANDS[name]


def test_the_version_is_told() -> None:
    assert CliRunner().invoke(app, ["--version"]).output == f"precis {__version__}\n"


def test_a_checkouts_commands_say_that_they_need_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "cli.commands", raising=False)
    monkeypatch.setitem(sys.modules, "cli", None)  # as if it were not there
    listed = CliRunner().invoke(app, ["--help"]).output
    assert "summarize" in listed
    assert "rehearse" not in listed
    monkeypatch.setattr(sys, "argv", ["precis", "rehearse"])
    with pytest.raises(SystemExit, match="This command needs a checkout of Précis"):
        main()


def test_a_command_without_the_pipeline_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "cli.doctor", raising=False)
    monkeypatch.setitem(sys.modules, "prefect.settings", None)  # as if it were not there
    monkeypatch.setattr(sys, "argv", ["precis", "doctor"])
    with pytest.raises(SystemExit, match=r"prefect.* is not installed: run `make install`.*extra"):
        main()


def test_a_name_is_shown_in_an_old_locale_too() -> None:
    old = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    done = subprocess.run(
        [sys.executable, "-m", "precis", "summarize", "é.md"],
        env={**os.environ, **old},
        capture_output=True,
        encoding="utf-8",
    )
    assert "There is no file é.md." in done.stderr


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("/dev/full", "Can't write: No space left on device. Free some"),
        ("/", "Can't use /: Is a directory. Let this user read and write there"),
    ],
)
def test_a_file_that_can_t_be_used_gets_a_sentence(
    file: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit), sentences():
        Path(file).write_text("a page")
    assert capsys.readouterr().err.startswith(said)


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("OPENROUTER_API_KEY", "sk-or-v1-4f…", "OPENROUTER_API_KEY holds characters that no key"),
        ("NO_KEY", "", "No key is called NO_KEY; there are "),  # before the key is asked for
    ],
)
def test_a_key_that_can_t_be_used_is_not_kept(variable: str, value: str, said: str) -> None:
    done = CliRunner().invoke(app, ["secret", variable], input=f"{value}\n")
    assert done.exit_code == 1
    assert said in done.output
    assert "sk-or" not in done.output


class Interruption:
    """Finds no module; the import of one of them is interrupted."""

    def __init__(self, module: str) -> None:
        self._module = module

    def find_spec(self, name: str, path: Sequence[str] | None, target: object = None) -> None:
        if name == self._module:
            raise KeyboardInterrupt


@pytest.mark.parametrize("module", ["precis.commands.main", "cli.commands"])
def test_an_early_ctrl_c_is_no_traceback(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interruption(module), *sys.meta_path])
    monkeypatch.setattr(sys, "argv", ["precis", "stop"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 130


@pytest.fixture
def heard() -> Iterator[None]:
    """Signals that end a process: whoever started the tests may have had some ignored."""

    def end(number: int, _: FrameType | None) -> None:
        raise AssertionError(f"signal {number} is no interruption")

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("heard")
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("is_training", [False, True])
def test_a_rehearsal_that_is_told_to_end_says_how_it_continues(
    sent: signal.Signals, is_training: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    cleaned_up = []

    async def train() -> None:
        try:
            signal.raise_signal(sent)
            await asyncio.sleep(60)
        finally:
            cleaned_up.append(True)

    with pytest.raises(typer.Exit), _explain_interrupt():
        asyncio.run(train()) if is_training else signal.raise_signal(sent)
    assert "Interrupted. The same command continues" in " ".join(capsys.readouterr().err.split())
    assert bool(cleaned_up) is is_training


@pytest.mark.usefixtures("heard")
def test_a_rehearsal_that_outlives_its_terminal_goes_on() -> None:
    """As nohup has it: SIGHUP is ignored."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with _explain_interrupt():
        signal.raise_signal(signal.SIGHUP)
