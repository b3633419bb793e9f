"""The `precis` command: its list, which imports no command; what is typed to it, which is checked
before anything is asked for; and its interruption."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup
from typer.testing import CliRunner

from precis import __version__
from precis.__main__ import main
from precis.commands.main import COMMANDS, app, load
from precis.commands.terminal import sentences
from tests.services.patience import patience_s, read_to_end

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


def test_a_file_that_can_t_be_used_gets_a_sentence(home: Path) -> None:
    """As where `sudo precis up` has made the folder."""
    file = home / "prefect" / "api-url"
    file.mkdir(parents=True)
    done = CliRunner().invoke(app, ["runs"], env={"PREFECT_API_URL": ""})
    assert done.exit_code == 1
    assert f"Can't use {file}: Is a directory." in " ".join(done.output.split())


def test_a_name_is_shown_in_an_old_locale_too() -> None:
    old = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    done = subprocess.run(
        [sys.executable, "-m", "precis", "summarize", "é.md"],
        env={**os.environ, **old},
        capture_output=True,
        encoding="utf-8",
    )
    assert "There is no file é.md." in done.stderr


def test_a_closed_input_is_an_empty_one() -> None:
    command = f"{sys.executable} -m precis secret OPENROUTER_API_KEY <&-"
    done = subprocess.run(command, shell=True, stderr=subprocess.PIPE, text=True)
    assert done.stderr == "No value was given for OPENROUTER_API_KEY.\n"


def test_a_full_disk_gets_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit), sentences():
        Path("/dev/full").write_text("a page")
    assert capsys.readouterr().err.startswith("Can't write: No space left on device. Free some")


def test_a_key_that_cannot_be_sent_is_not_kept() -> None:
    done = CliRunner().invoke(app, ["secret", "OPENROUTER_API_KEY"], input="sk-or-v1-4f…\n")
    assert done.exit_code == 1
    assert "OPENROUTER_API_KEY holds characters that no key has" in done.output
    assert "sk-or" not in done.output


def test_a_name_that_no_key_has_is_refused_before_the_key_is_asked_for() -> None:
    command = [sys.executable, "-m", "precis", "secret", "NO_KEY"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stderr=pipe, text=True) as process:
        # Whoever reads its input waits for ever.
        assert process.wait(patience_s()) == 1
        assert process.stderr is not None
        assert "No key is called NO_KEY; there are " in process.stderr.read()


REHEARSAL = """
import asyncio, signal, sys, time
from cli.commands import _explain_interrupt
from precis.commands.terminal import sentences

async def train():
    print("ready", flush=True)
    try:
        await asyncio.sleep(600)
    finally:
        print("cleaned up", flush=True)

def wait():
    print("ready", flush=True)
    while True:  # a signal just before a sleep does not shorten it
        time.sleep(0.1)

with sentences(), _explain_interrupt():
    wait() if sys.argv[1] == "starting" else asyncio.run(train())
"""

# Whoever started the tests may have had a signal ignored, which a child inherits: nohup, say.
HEARING = f"""
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
{REHEARSAL}
"""


class Interruption:
    """Finds no module; the import of one of them is interrupted."""

    def __init__(self, module: str) -> None:
        self._module = module

    def find_spec(self, name: str, path: Sequence[str] | None, target: object = None) -> None:
        if name == self._module:
            raise KeyboardInterrupt


@pytest.mark.parametrize("module", ["precis.commands.main", "cli.commands"])
def test_ctrl_c_while_the_command_is_loaded_is_no_traceback(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interruption(module), *sys.meta_path])
    monkeypatch.setattr(sys, "argv", ["precis", "stop"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 130


def signalled(program: str, phase: str, sent: signal.Signals) -> "subprocess.Popen[str]":
    """The program in a phase, where it has got a signal."""
    command = [sys.executable, "-c", program, phase]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(sent)
    return process


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("phase", ["starting", "training"])
def test_a_rehearsal_that_is_told_to_end_says_how_it_continues(
    sent: signal.Signals, phase: str
) -> None:
    said = read_to_end(signalled(HEARING, phase, sent))
    assert "Interrupted. The same command continues" in " ".join(said.split())
    assert ("cleaned up" in said) == (phase == "training")


HANGING = """
import asyncio, sys, time
from cli import doctor
from precis.commands.terminal import plain_console

def hang():
    time.sleep(0.3)  # until the event loop waits: Python may lose a signal that comes just before
    print("ready", flush=True)
    time.sleep(600)

doctor._FAREWELL_S = 0.5
if sys.argv[1] == "checking":
    doctor.checks_of = lambda *_: {"documents": lambda: asyncio.to_thread(hang)}
else:
    doctor.checks_of = lambda *_: hang()
doctor.examine_deployment("train/rehearsal", [], plain_console())
"""


@pytest.mark.parametrize("phase", ["planning", "checking"])
def test_an_interrupted_doctor_does_not_wait_for_a_check_that_nothing_ends(phase: str) -> None:
    """While it plans, it may read a benchmark's model from a bucket that does not answer."""
    process = signalled(HANGING, phase, signal.SIGINT)
    read_to_end(process)
    assert process.returncode == 130


def test_a_rehearsal_that_outlives_its_terminal_goes_on() -> None:
    """As nohup has it: SIGHUP is ignored."""
    ignoring = f"import signal\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)\n{REHEARSAL}"
    process = signalled(ignoring, "training", signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1)
    process.kill()
    process.communicate()
