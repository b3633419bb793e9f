"""The crash matrix: the flow, the trainer or both killed at every point of a step.

One run has all the points, each in a step of its own, and is started again whenever its flow is
dead. It must end with the same bits in every step as a run that nobody disturbed, and each step
trained once by the trainer's own log.
"""

import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.services.conftest import Precis
from tests.services.crash_points import INTERRUPTED, POINTS, VICTIMS, Kill, Kills, Role
from tests.services.lives import Life, Undisturbed, first_life, nobody, one_a_step, undisturbed_by
from tests.services.prefect_api import client_of, runs_in, states_of
from tests.services.s3_server import s3_server
from tests.support import echoing

SHORT = [
    Kill("training begun", ("trainer",)),
    Kill("weights saved", ("flow",)),
    Kill("pointer moved", ("flow", "trainer")),
]
"""What `make test` has of the matrix: each victim once. That a run may die anywhere is proven in
process (tests/unit/training/test_kills.py)."""

IN_GAMES = [
    Kill("in mid game", ("flow",)),
    Kill("in mid game", ("trainer",)),
    Kill("in mid game", ("flow", "trainer")),
    Kill("before weights saved", ("trainer",)),
    Kill("weights saved", ("flow",)),
]


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


@pytest.mark.long
@pytest.mark.parametrize("victims", VICTIMS, ids="+".join)
def test_a_run_that_is_killed_at_every_point_ends_as_if_it_had_not_been(
    victims: tuple[Role, ...], first: Life, undisturbed: Undisturbed, tmp_path: Path
) -> None:
    kills = one_a_step(Kill(point, victims) for point in POINTS)
    assert_lives_through(first.named("+".join(victims)), kills, undisturbed, tmp_path)


@pytest.mark.long
def test_a_run_that_is_told_to_end_commits_what_is_trained_and_gives_up_what_is_ahead(
    first: Life, tmp_path: Path
) -> None:
    stale = {"off_policy_steps": 1, "retention": {"keep_last": 2, "keep_every": 0}}
    calm = replace(first, name="told-calm", steps=3, more=stale)
    assert calm.live(nobody(tmp_path)) == 0
    life = calm.named("told")
    kills = Kills(tmp_path, [Kill("first file uploaded", ("flow",), by=signal.SIGTERM)])
    assert life.live(kills) != 0
    assert kills.done
    assert life.ledger.next_step == 2, "the commit in hand was not finished"
    assert life.live(nobody(tmp_path)) == 0
    assert life.outcome == calm.outcome
    assert {life.trainings["trained", step] for step in range(life.steps)} == {1}


@pytest.mark.long  # test_kills.py has the same in process
def test_games_that_are_killed_in_their_middle_end_as_if_they_had_not_been(
    first: Life, tmp_path: Path
) -> None:
    games = {"environment": echoing.__file__, "trainer": {"kind": "tool_calls"}}
    life = replace(first, name="played", bucket=f"{first.bucket}-games", more=games)
    assert_lives_through(life, one_a_step(IN_GAMES), undisturbed_by(life, tmp_path), tmp_path)


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
