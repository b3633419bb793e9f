"""Nothing is left of a trainer, whatever of it dies, and a neighbour's is left alone.

The trainers here are stand-ins with the processes, names and bad manners of ART's and vLLM's
(`tree_server`); who dies, dies by a real SIGKILL.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from precis.processes.child import is_running
from precis.processes.supervisor import descendants, end_descendants
from tests.services.conftest import ROOT
from tests.services.patience import wait_until

_FLOW = """
import asyncio, sys
from pathlib import Path
from precis.processes.child import child_service

async def main(folder):
    command = ("tests.services.tree_server", [str(folder)], folder / "trainer.log")
    async with child_service(*command, supervised=True):
        print("up", flush=True)
        await asyncio.Event().wait()

asyncio.run(main(Path(sys.argv[1])))
"""


@dataclass(frozen=True)
class Trainer:
    """A trainer that is up, and the flow that started it."""

    flow: subprocess.Popen[str]
    tree: dict[str, psutil.Process]

    @property
    def alive(self) -> set[str]:
        return {role for role, process in self.tree.items() if is_running(process.pid)}


Start = Callable[[Path], Trainer]


@pytest.fixture(scope="module")
def start() -> Iterator[Start]:
    started: list[Trainer] = []

    def up(folder: Path) -> Trainer:
        folder.mkdir(exist_ok=True)
        command = [sys.executable, "-c", _FLOW, str(folder)]
        flow = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert flow.stdout is not None
        assert flow.stdout.readline() == "up\n", (folder / "trainer.log").read_text()
        pids = json.loads((folder / "tree.json").read_text())
        started.append(Trainer(flow, {role: psutil.Process(pid) for role, pid in pids.items()}))
        return started[-1]

    yield up
    for trainer in started:
        trainer.flow.kill()
        trainer.flow.communicate()
        for process in trainer.tree.values():
            if is_running(process.pid):
                process.kill()


@pytest.fixture(scope="module")
def neighbour(start: Start, tmp_path_factory: pytest.TempPathFactory) -> Trainer:
    """Another trainer on this machine, whose processes have the same names."""
    return start(tmp_path_factory.mktemp("neighbour"))


KILLED = [(one, "kill") for one in ("server", "service", "engine", "supervisor", "flow")]
STOPPED = [("server", "terminate"), ("supervisor", "terminate")]


@pytest.mark.parametrize(("victim", "end"), [*KILLED, *STOPPED])
def test_nothing_is_left_when_one_of_its_processes_ends(
    victim: str, end: str, start: Start, neighbour: Trainer, tmp_path: Path
) -> None:
    trainer = start(tmp_path)
    victims = {"flow": trainer.flow, **trainer.tree}
    getattr(victims[victim], end)()
    wait_until(lambda: not trainer.alive, "the trainer's end", told=lambda: trainer.alive)
    assert neighbour.alive == {"supervisor", "server", "service", "engine"}


def test_the_next_trainer_ends_leftovers(start: Start, neighbour: Trainer, tmp_path: Path) -> None:
    first = start(tmp_path)
    first.tree["supervisor"].suspend()  # so that it can't act between the two
    first.tree["server"].kill()
    first.tree["supervisor"].kill()
    left = {"service", "engine"}
    wait_until(lambda: first.alive <= left, "the end of the two", told=lambda: first.alive)
    assert first.alive == left
    second = start(tmp_path)
    assert first.alive == set()
    assert second.alive == {"supervisor", "server", "service", "engine"}
    assert neighbour.alive == {"supervisor", "server", "service", "engine"}


def test_a_service_that_is_replaced_takes_its_engine_along(start: Start, tmp_path: Path) -> None:
    trainer = start(tmp_path)
    below = {one.pid for one in descendants(trainer.tree["service"].pid)}
    assert below == {trainer.tree["engine"].pid}
    end_descendants(trainer.tree["service"].pid)
    assert not trainer.alive & {"service", "engine"}
