"""Kills at random moments: of the flow, of its trainer, of both.

Once also of a run that samples each step while the one before it is trained.
"""

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from tests.services.conftest import Precis
from tests.services.crash_points import VICTIMS, Role
from tests.services.lives import Life, first_life, nobody
from tests.services.patience import Patience
from tests.services.s3_server import s3_server

KILLS, KILLS_A_RUN, STEPS = 40, 20, 15
"""After so many kills a run is left in peace: on a slow machine it would never get anywhere."""
_LATEST_S = 1.0
"""By then a run that has come up is some steps further; on a slow machine it still resumes."""
KILL_SEED = int(os.environ.get("PRECIS_TEST_KILL_SEED", "20261"))


@pytest.fixture(scope="module")
def first(precis: Precis) -> Iterator[Life]:
    with s3_server() as url, first_life(precis, url) as life:
        yield life


@pytest.fixture(scope="module")
def calm(first: Life, tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Life]:
    """The run that nobody kills."""

    @cache
    def live(off_policy_steps: int) -> Life:
        life = named(first, f"calm-{off_policy_steps}", off_policy_steps)
        assert life.live(nobody(tmp_path_factory.mktemp("ids"))) == 0
        return life

    return live


@pytest.mark.long  # `make test` kills at chosen moments alone: test_crashes.py
@pytest.mark.parametrize(
    ("seed", "off_policy_steps"),
    [(KILL_SEED, 0), (KILL_SEED + 1, 1)],
)
def test_kills_at_random_moments_change_nothing(
    seed: int, off_policy_steps: int, first: Life, calm: Callable[[int], Life], tmp_path: Path
) -> None:
    print(f"kill seed {seed}")
    expected = calm(off_policy_steps).outcome
    moments, kills, runs = random.Random(seed), 0, 0
    while kills < KILLS:
        life = named(first, f"random-{seed}-{runs}", off_policy_steps)
        before, runs = kills, runs + 1
        for moment in _harassed(life, tmp_path):
            if kills < min(KILLS, before + KILLS_A_RUN):
                time.sleep(moments.uniform(0, _LATEST_S))
                kills += _kill(moments.choice(VICTIMS), moment)
        assert life.outcome == expected
        assert {life.trainings["trained", step] for step in range(life.steps)} == {1}
    print(f"{kills} kills in {runs} runs")


def named(first: Life, name: str, off_policy_steps: int) -> Life:
    """Another run beside the first."""
    more = {"off_policy_steps": off_policy_steps, "retention": {"keep_last": 2, "keep_every": 0}}
    return replace(first, name=name, steps=STEPS, more=more)


def _harassed(life: Life, folder: Path) -> Iterator[Path]:
    """Start a run as often as it takes to end; yields whenever flow and trainer are up anew."""
    patience = Patience("the end of a run that is killed", lambda: life.log.read_text()[-3000:])
    code: int | None = -signal.SIGKILL
    while code != 0:
        assert code == -signal.SIGKILL, life.log.read_text()[-3000:]
        patience.check()
        _forget_ids(folder)
        process = life.start(nobody(folder))
        while process.exitcode is None:
            if (folder / "flow").exists() and (folder / "trainer").exists():
                yield folder
                (folder / "trainer").unlink(missing_ok=True)
            process.join(0.05)
        code = process.exitcode


def _forget_ids(folder: Path) -> None:
    for role in ("flow", "trainer"):
        (folder / role).unlink(missing_ok=True)


def _kill(victims: tuple[Role, ...], folder: Path) -> bool:
    """Kill those that are up; whether somebody was."""
    hit = False
    for role in victims:
        with suppress(FileNotFoundError, ProcessLookupError, ValueError):
            os.kill(int((folder / role).read_text()), signal.SIGKILL)
            hit = True
    return hit
