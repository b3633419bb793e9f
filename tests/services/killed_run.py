"""A run whose processes are ended on their way, where a plan says.

    python -m tests.services.killed_run flow FOLDER CONFIG

Flow and trainer are the programs that users run. The trainer, which gets to the places where a run
may die (`precis.processes.kill_points`), ends there whom the plan in FOLDER names, once.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest

from precis.config import TrainConfig
from precis.processes.child import child_service
from precis.processes.kill_points import on_reaching

PROGRAM = "tests.services.killed_run"


@dataclass(frozen=True)
class Kill:
    """Whom to end where.

    Attributes:
        point: a place in the trainer, by its name.
        number: the step or checkpoint that it is about.
    """

    point: str
    number: int
    victims: Sequence[Literal["flow", "trainer"]] = ("trainer",)
    by: int = signal.SIGKILL

    @property
    def mark(self) -> str:
        """The name of the file that says that it was done."""
        return f"ended at {self.point} {self.number}"


def write_plan(folder: Path, kills: Sequence[Kill]) -> None:
    """Plan a run whose processes are ended at these places."""
    (folder / "plan.json").write_text(json.dumps(list(map(asdict, kills))))


def run_flow(folder: Path, config: str) -> None:
    """Live the flow."""
    import flows.train  # takes seconds, too long where tests are only collected

    def launch(module: str, arguments: Sequence[str], *given: Any, **options: Any) -> Any:
        if module == "precis.trainer.server":
            module, arguments = PROGRAM, ["trainer", str(folder), *arguments]
        return child_service(module, arguments, *given, **options)

    run_training = partial(flows.train.run_training, launch=launch)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flows.train, "run_training", run_training)
        # Who is told to end finishes its commit, for which a busy machine needs its time.
        patch.setattr("precis.training.loop.COMMIT_GRACE_S", 120.0)
        asyncio.run(flows.train.train(TrainConfig.model_validate_json(config)))


def run_trainer(folder: Path, arguments: Sequence[str]) -> None:
    """Be its trainer, and end whom the plan names at the places that it gets to."""
    import typer

    from precis.trainer import server

    planned = [Kill(**kill) for kill in json.loads((folder / "plan.json").read_text())]

    def strike(point: str, number: int | None) -> None:
        for kill in planned:
            # A mark that is there is of a process that was started again since.
            if (kill.point, kill.number) == (point, number) and not (folder / kill.mark).exists():
                (folder / kill.mark).touch()
                for victim in kill.victims:
                    with suppress(ProcessLookupError):
                        os.kill(int((folder / victim).read_text()), kill.by)

    on_reaching(strike)
    sys.argv[1:] = arguments
    typer.run(server.main)


if __name__ == "__main__":
    _, role, place, *rest = sys.argv
    (Path(place) / role).write_text(str(os.getpid()))
    if role == "flow":
        run_flow(Path(place), *rest)
    else:
        run_trainer(Path(place), rest)
