"""Where a run can die: every point between two things that must not come apart.

A point is a function of the product and whether the process dies before or after it. The process
that gets there kills whom it is told to, once, with SIGKILL.
"""

import functools
import inspect
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import precis.extractive.backend
import precis.run.lease
import precis.training.run
import tasks.artifacts
import tasks.checkpoints
import tasks.committing
import tasks.rollouts
import tasks.training
from precis.judge import JudgeClient
from precis.store.s3 import S3Store
from precis.trainer.client import RemoteTrainer
from precis.trainer.journal import Journal

Role = Literal["flow", "trainer"]
VICTIMS: list[tuple[Role, ...]] = [("flow",), ("trainer",), ("flow", "trainer")]


@dataclass(frozen=True)
class Point:
    """A place in the code of one of the processes.

    Attributes:
        owner: the module or class that has the function.
        nth: the how manieth call it is.
        key: what the call's second argument ends in, for calls of the store.
    """

    role: Role
    owner: Any
    function: str
    side: Literal["before", "after"]
    nth: int = 1
    key: str = ""


@dataclass(frozen=True)
class Kill:
    """Whom to kill where; `folder` is where the processes leave their ids."""

    point: str
    victims: tuple[Role, ...]
    folder: str
    by: signal.Signals = signal.SIGKILL


POINTS = {
    "before sampling": Point("flow", tasks.rollouts, "gather", "before", 2),
    "sampled, before scoring": Point("flow", JudgeClient, "score", "before", 3),
    "after scoring": Point("flow", tasks.rollouts, "gather", "after", 2),
    "before training": Point("flow", RemoteTrainer, "train", "before", 2),
    "training begun": Point("trainer", Journal, "began", "after", 2),
    "before weights saved": Point("trainer", precis.extractive.backend, "save", "before", 3),
    "weights saved": Point("trainer", precis.extractive.backend, "save", "after", 3),
    "training logged": Point("trainer", Journal, "_log", "after", 4),
    "result stored": Point("trainer", Journal, "finished", "after", 2),
    "answer sent": Point("flow", RemoteTrainer, "train", "after", 2),
    "before first upload": Point("trainer", S3Store, "upload", "before", 5),
    "first file uploaded": Point("trainer", S3Store, "upload", "after", 5),
    "second file uploaded": Point("trainer", S3Store, "upload", "after", 6),
    "manifest written": Point("trainer", S3Store, "put_if", "after", 3, "manifest.json"),
    "pointer moved": Point("trainer", S3Store, "put_if", "after", 3, "latest.json"),
    "before ledger": Point("flow", precis.training.run, "write_ledger", "before", 6),
    "ledger written": Point("flow", precis.training.run, "write_ledger", "after", 6),
    "lease renewed": Point("flow", S3Store, "put_if", "after", 3, "lease.json"),
    "validated": Point("flow", tasks.checkpoints, "gather_greedy", "after", 2),
    "in retention": Point("flow", S3Store, "delete", "after", 1, "manifest.json"),
}
"""In the second step of two, each followed by a validation; the ledger is written when the run
begins and when its checkpoint 0 is there, then for each validation and each step."""


def sign_in(role: Role, kill: Kill) -> None:
    """Say that this process plays a role, and can be killed in it."""
    (Path(kill.folder) / role).write_text(str(os.getpid()))


def arm(role: Role, kill: Kill) -> None:
    """Have this process kill at the point, if the point is one of its role."""
    point = POINTS.get(kill.point)
    if point is None or point.role != role:
        return
    owner, calls = point.owner, iter(range(1, 1000))
    function = getattr(owner, point.function)

    def hit(arguments: tuple[Any, ...]) -> bool:
        if point.key and not any(str(one).endswith(point.key) for one in arguments):
            return False
        return next(calls) == point.nth

    def strike() -> None:
        _strike(role, kill)

    setattr(owner, point.function, _wrapped(function, point.side, hit, strike))


def _wrapped(
    function: Callable[..., Any],
    side: str,
    hit: Callable[[tuple[Any, ...]], bool],
    strike: Callable[[], None],
) -> Callable[..., Any]:
    @functools.wraps(function)
    async def asynchronous(*arguments: Any, **options: Any) -> Any:
        now = hit(arguments)
        if now and side == "before":
            strike()
        result = await function(*arguments, **options)
        if now and side == "after":
            strike()
        return result

    @functools.wraps(function)
    def synchronous(*arguments: Any, **options: Any) -> Any:
        now = hit(arguments)
        if now and side == "before":
            strike()
        result = function(*arguments, **options)
        if now and side == "after":
            strike()
        return result

    return asynchronous if inspect.iscoroutinefunction(function) else synchronous


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
