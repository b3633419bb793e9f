"""The flow, the trainer or both killed in the middle of a step, with SIGKILL.

A run has several kills, each in a step of its own, and is started again whenever its flow is dead.
It must end with the same bits in every step as a run that nobody disturbed, and each step trained
once by the trainer's own log. That a run may die anywhere is proven in process
(tests/unit/training/test_kills.py).
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.services.conftest import Precis
from tests.services.crash_points import INTERRUPTED, POINTS, Kill, Kills
from tests.services.lives import Life, Undisturbed, first_life, one_a_step, undisturbed_by
from tests.services.prefect_api import client_of, runs_in, states_of
from tests.services.s3_server import s3_server

SHORT = [
    Kill("training begun", ("trainer",)),
    Kill("weights saved", ("flow",)),
    Kill("pointer moved", ("flow", "trainer")),
]
"""Each victim once."""


@pytest.fixture(scope="module")
def first(precis: Precis) -> Iterator[Life]:
    with s3_server() as url, first_life(precis, url) as life:
        yield replace(life, more={"validate_every": 1})


@pytest.fixture(scope="module")
def undisturbed(first: Life, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    return undisturbed_by(first, tmp_path_factory.mktemp("ids"))


def test_a_run_that_is_killed_ends_as_if_it_had_not_been(
    first: Life, undisturbed: Undisturbed, tmp_path: Path, precis: Precis
) -> None:
    life = first.named("short")
    assert_lives_through(life, one_a_step(SHORT), undisturbed, tmp_path)
    with client_of(precis.api) as api:
        *_, first_run = runs_in(api, life.config["store"])
        names = [state["name"] for state in states_of(api, first_run["id"])]
    assert names[:5] == ["Pending", "Running", "Preempted", "Recovering", "Running"]


@pytest.mark.long  # in process the trainer dies with the flow, and never alone
def test_a_run_whose_trainer_is_killed_at_every_point_ends_as_if_it_had_not_been(
    first: Life, undisturbed: Undisturbed, tmp_path: Path
) -> None:
    of_it = [name for name, point in POINTS.items() if point.role == "trainer"]
    kills = one_a_step(Kill(point, ("trainer",)) for point in of_it)
    assert_lives_through(first.named("trainer"), kills, undisturbed, tmp_path)


def assert_lives_through(
    run: Life, kills: list[Kill], undisturbed: Undisturbed, folder: Path
) -> None:
    life = replace(run, steps=len(kills) + 1)
    life.live_through(Kills(folder, kills))
    assert life.outcome == undisturbed(life.steps).outcome
    interrupted = {kill.step for kill in kills if kill.point in INTERRUPTED}
    for step in range(life.steps):
        assert life.trainings["trained", step] == 1
        assert life.trainings["began", step] <= (2 if step in interrupted else 1)
