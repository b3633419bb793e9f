"""Where a run can die: every point between two things that must not come apart.

The product names them (`precis.processes.kill_points`). The process that gets there kills whom it
is told to, once, with SIGKILL.
"""

import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from precis.processes.kill_points import on_reaching

Role = Literal["flow", "trainer"]


@dataclass(frozen=True)
class Point:
    """A place in one of the processes.

    Attributes:
        reached: what the product calls it.
        ahead: what it is about, counted from the step that it is in: 1 is the checkpoint after it.
    """

    role: Role
    reached: str
    ahead: int = 0


@dataclass(frozen=True)
class Kill:
    """Whom to kill where, once.

    Attributes:
        step: the step that the point is in; 1 is the second.
    """

    point: str
    victims: tuple[Role, ...]
    step: int = 1
    by: signal.Signals = signal.SIGKILL

    @property
    def name(self) -> str:
        return f"{self.step} {self.point} {'+'.join(self.victims)}"


@dataclass(frozen=True)
class Kills:
    """What a run has to live through; `folder` is where its processes leave ids and marks."""

    folder: Path
    planned: Sequence[Kill] = ()

    @property
    def done(self) -> list[Kill]:
        return [kill for kill in self.planned if self.mark(kill).exists()]

    def mark(self, kill: Kill) -> Path:
        """The file that says that it was done."""
        return self.folder / f"struck {kill.name}"


POINTS = {
    "first demonstrations kept": Point("flow", "demonstrations kept"),
    "training begun": Point("trainer", "training begun"),
    "before weights saved": Point("trainer", "before weights saved"),
    "weights saved": Point("trainer", "weights saved"),
    "training logged": Point("trainer", "training logged"),
    "result stored": Point("trainer", "result stored"),
    "answer sent": Point("flow", "step trained"),
    "before first upload": Point("trainer", "0 files uploaded", 1),
    "first file uploaded": Point("trainer", "1 files uploaded", 1),
    "second file uploaded": Point("trainer", "all files uploaded", 1),
    "manifest written": Point("trainer", "manifest written", 1),
    "pointer moved": Point("trainer", "pointer moved", 1),
}
"""All of the trainer's, and those of the flow that a test needs: it may die at any, as
tests/unit/training/test_kills.py proves in process. The first is of a warm start, which is step 0.
"""

INTERRUPTED = {"training begun", "before weights saved"}
"""Points at which a training is under way whose weights are not saved: it begins again."""


def sign_in(role: Role, kills: Kills) -> None:
    """Say that this process plays a role, and can be killed in it."""
    (kills.folder / role).write_text(str(os.getpid()))


def arm(role: Role, kills: Kills) -> None:
    """Have this process kill at those points that are of its role."""
    at: dict[tuple[str, int | None], Kill] = {}
    for kill in kills.planned:
        point = POINTS[kill.point]
        if point.role == role:
            at[point.reached, kill.step + point.ahead] = kill

    def strike_there(reached: str, step: int | None) -> None:
        kill = at.get((reached, step))
        if kill is not None:
            _strike(role, kill, kills)

    on_reaching(strike_there)


def _strike(role: Role, kill: Kill, kills: Kills) -> None:
    try:
        os.close(os.open(kills.mark(kill), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return  # in the life of a process that was started again
    for victim in sorted(kill.victims, key=lambda victim: victim == role):
        with suppress(ProcessLookupError):  # another kill was sooner
            os.kill(int((kills.folder / victim).read_text()), kill.by)
        if victim == role and kill.by == signal.SIGKILL:
            time.sleep(60)
