"""A run that samples while it trains: each step from the adapter before its own, also after kills.

The crash matrix once more, with `off_policy_steps`: killed at any point the run ends with the same
bits as one that nobody disturbed, every step trained once. At the points of the sampling of step 1
the training of step 0 is under way.
"""

import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from precis.records.trajectories import scan_trajectories
from tests.services.conftest import Precis
from tests.services.crash_points import POINTS, Kill, Role
from tests.services.kill_matrix import matrix
from tests.services.lives import Life, first_life, live_through, nobody
from tests.services.s3_server import s3_server

STEPS = 3
SETTINGS = {
    "off_policy_steps": 1,
    "validate_every": 1,
    "retention": {"keep_last": 2, "keep_every": 0, "keep_best": 0},
}
SHORT = {
    ("after scoring", "trainer"),
    ("training begun", "flow+trainer"),
    ("weights saved", "flow"),
}
LOST = ["sampled, before scoring", "before training", "ledger written", "validated"]
"""Points at which flow and machine are lost together."""


@pytest.fixture(scope="module")
def first(precis: Precis) -> Iterator[Life]:
    with s3_server() as url, first_life(precis, url) as life:
        yield replace(life, steps=STEPS, more=SETTINGS)


@pytest.fixture(scope="module")
def undisturbed(first: Life, tmp_path_factory: pytest.TempPathFactory) -> Life:
    assert first.live(nobody(tmp_path_factory.mktemp("ids"))) == 0
    assert set(first.trainings.values()) == {1}
    return first


def adapters(life: Life) -> list[set[str]]:
    """The adapters that the summaries of each step are from, by the rollouts in the store."""
    found = []
    for step in range(life.steps):
        rollouts = scan_trajectories(life.store, "crash", "train", [step]).collect()
        found.append(set(rollouts["policy"]))
    return found


def test_each_step_is_sampled_from_the_adapter_before_its_own(undisturbed: Life) -> None:
    assert adapters(undisturbed) == [{"crash@0"}, {"crash@0"}, {"crash@1"}]
    assert [step.staleness for step in undisturbed.ledger.steps] == [0, 1, 1]


def test_sampling_goes_on_beside_training(undisturbed: Life) -> None:
    turn, *beside = undisturbed.ledger.steps
    assert turn.overlapped_s == 0
    assert all(step.overlapped_s > 0 for step in beside)


def test_a_stale_run_is_another_one_than_one_that_waits(
    undisturbed: Life, first: Life, tmp_path: Path
) -> None:
    """The same settings but for the overlap: else nothing here would show that it does anything."""
    waits = replace(first, name="waits", more={**SETTINGS, "off_policy_steps": 0})
    assert waits.live(nobody(tmp_path)) == 0
    mine = [step.digest for step in undisturbed.ledger.steps]
    theirs = [step.digest for step in waits.ledger.steps]
    assert [one == other for one, other in zip(mine, theirs, strict=True)] == [True, False, False]


@pytest.mark.parametrize(("point", "victims"), matrix(POINTS, SHORT))
def test_a_run_that_is_killed_ends_as_if_it_had_not_been(
    point: str, victims: tuple[Role, ...], first: Life, undisturbed: Life, tmp_path: Path
) -> None:
    life = live_through(first, Kill(point, victims, str(tmp_path)))
    assert_undisturbed(life, undisturbed)
    assert {life.trainings["trained", step] for step in range(STEPS)} == {1}


@pytest.mark.long  # in a life of its own each
@pytest.mark.parametrize("point", LOST)
def test_a_run_whose_machine_is_lost_with_it_has_the_stale_adapter_from_the_store(
    point: str, first: Life, undisturbed: Life, tmp_path: Path
) -> None:
    kill = Kill(point, ("flow", "trainer"), str(tmp_path))
    life = live_through(first, kill, machine_is_lost=True)
    assert_undisturbed(life, undisturbed)


@pytest.mark.long
def test_a_stale_adapter_that_is_lost_everywhere_costs_the_overlap_of_one_step(
    first: Life, tmp_path: Path
) -> None:
    life = first.named("without-stale", STEPS)
    life = replace(life, more={**SETTINGS, "validate_every": 5})
    kill = Kill("ledger written", ("flow", "trainer"), str(tmp_path))
    assert life.live(kill) == -signal.SIGKILL
    assert life.ledger.next_step == 2
    shutil.rmtree(life.work / "trainer")
    life.store.delete("crash/checkpoints/0001/")
    assert life.live(nobody(tmp_path)) == 0
    assert [step.staleness for step in life.ledger.steps] == [0, 1, 0]
    assert "Step 2 is sampled from its own adapter." in life.log.read_text()


@pytest.mark.long
def test_a_run_that_is_told_to_end_commits_what_is_trained_and_gives_up_what_is_ahead(
    first: Life, undisturbed: Life, tmp_path: Path
) -> None:
    life = replace(first, name="told")
    kill = Kill("first file uploaded", ("flow",), str(tmp_path), signal.SIGTERM)
    assert life.live(kill) != 0
    assert (tmp_path / "struck").exists()
    assert life.ledger.next_step == 2, "the commit in hand was not finished"
    assert life.live(nobody(tmp_path)) == 0
    assert_undisturbed(life, undisturbed)
    assert {life.trainings["trained", step] for step in range(STEPS)} == {1}


def assert_undisturbed(life: Life, undisturbed: Life) -> None:
    assert adapters(life) == adapters(undisturbed)
    expected: Any = undisturbed.outcome
    assert life.outcome == expected
