"""Where a run can die: every point between two things that must not come apart.

The product names them (`precis.processes.kill_points`). The process that gets there kills whom it
is told to, once, with SIGKILL.
"""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from precis.processes.kill_points import on_reaching

Role = Literal["flow", "trainer"]
VICTIMS: list[tuple[Role, ...]] = [("flow",), ("trainer",), ("flow", "trainer")]


@dataclass(frozen=True)
class Point:
    """A place in one of the processes.

    Attributes:
        reached: what the product calls it.
        step: the step, or the checkpoint, that it is about; None takes the first time.
    """

    role: Role
    reached: str
    step: int | None = None


@dataclass(frozen=True)
class Kill:
    """Whom to kill where; `folder` is where the processes leave their ids."""

    point: str
    victims: tuple[Role, ...]
    folder: str
    by: signal.Signals = signal.SIGKILL


POINTS = {
    "before sampling": Point("flow", "before sampling", 1),
    "sampled, before scoring": Point("flow", "summary sampled", 1),
    "after scoring": Point("flow", "rollouts scored", 1),
    "before training": Point("flow", "before training", 1),
    "training begun": Point("trainer", "training begun", 1),
    "before weights saved": Point("trainer", "before weights saved", 1),
    "weights saved": Point("trainer", "weights saved", 1),
    "training logged": Point("trainer", "training logged", 1),
    "result stored": Point("trainer", "result stored", 1),
    "answer sent": Point("flow", "step trained", 1),
    "before first upload": Point("trainer", "0 files uploaded", 2),
    "first file uploaded": Point("trainer", "1 files uploaded", 2),
    "second file uploaded": Point("trainer", "all files uploaded", 2),
    "manifest written": Point("trainer", "manifest written", 2),
    "pointer moved": Point("trainer", "pointer moved", 2),
    "before ledger": Point("flow", "before ledger", 2),
    "ledger written": Point("flow", "ledger written", 2),
    "lease renewed": Point("flow", "lease renewed", 1),
    "validated": Point("flow", "validation scored", 1),
    "in retention": Point("flow", "manifest deleted"),
}
"""In the second step of two, each followed by a validation."""

WARM_POINTS = {
    "warm: groups measured before it": Point("flow", "groups measured", 0),
    "warm: summaries sampled": Point("flow", "summaries collected", 0),
    "warm: first summaries kept": Point("flow", "summaries kept", 0),
    "warm: before training": Point("flow", "before training", 0),
    "warm: training begun": Point("trainer", "training begun", 0),
    "warm: before weights saved": Point("trainer", "before weights saved", 0),
    "warm: weights saved": Point("trainer", "weights saved", 0),
    "warm: training logged": Point("trainer", "training logged", 0),
    "warm: result stored": Point("trainer", "result stored", 0),
    "warm: answer sent": Point("flow", "step trained", 0),
    "warm: before first upload": Point("trainer", "0 files uploaded", 1),
    "warm: manifest written": Point("trainer", "manifest written", 1),
    "warm: pointer moved": Point("trainer", "pointer moved", 1),
    "warm: before ledger": Point("flow", "before ledger", 1),
    "warm: ledger written": Point("flow", "ledger written", 1),
    "warm: groups measured after it": Point("flow", "groups measured", 1),
}
"""In a warm start, which is step 0."""


def sign_in(role: Role, kill: Kill) -> None:
    """Say that this process plays a role, and can be killed in it."""
    (Path(kill.folder) / role).write_text(str(os.getpid()))


def arm(role: Role, kill: Kill) -> None:
    """Have this process kill at the point, if the point is one of its role."""
    point = {**POINTS, **WARM_POINTS}.get(kill.point)
    if point is None or point.role != role:
        return

    def strike_there(reached: str, step: int | None) -> None:
        if reached == point.reached and point.step in (None, step):
            _strike(role, kill)

    on_reaching(strike_there)


def _strike(role: Role, kill: Kill) -> None:
    folder = Path(kill.folder)
    try:
        os.close(os.open(folder / "struck", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return  # in the life of a trainer that was started again
    for victim in sorted(kill.victims, key=lambda victim: victim == role):
        os.kill(int((folder / victim).read_text()), kill.by)
        if victim == role and kill.by == signal.SIGKILL:
            time.sleep(60)
