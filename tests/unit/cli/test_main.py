"""The `precis` command that is interrupted: before any of its commands has begun, and later."""

import signal
import subprocess
import sys
from collections.abc import Sequence

import pytest

from precis.__main__ import main
from tests.services.patience import read_to_end

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


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("phase", ["starting", "training"])
def test_a_rehearsal_that_is_told_to_end_says_how_it_continues(
    sent: signal.Signals, phase: str
) -> None:
    command = [sys.executable, "-c", HEARING, phase]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(sent)
    said = read_to_end(process)
    assert "Interrupted. The same command continues" in " ".join(said.split())
    assert ("cleaned up" in said) == (phase == "training")


def test_a_rehearsal_that_outlives_its_terminal_goes_on() -> None:
    """As nohup has it: SIGHUP is ignored."""
    ignoring = f"import signal\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)\n{REHEARSAL}"
    process = subprocess.Popen(
        [sys.executable, "-c", ignoring, "training"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1)
    process.kill()
    process.communicate()
