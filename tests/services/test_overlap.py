"""A run that samples while it trains: each step from the adapter before its own, also after kills.

The crash matrix once more, with `off_policy_steps`: at the points of the sampling of a step the
training of the one before it is under way.
"""

import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from precis.records.trajectories import scan_trajectories
from tests.services.conftest import Precis
from tests.services.crash_points import POINTS, VICTIMS, Kill, Kills, Role
from tests.services.lives import Life, Undisturbed, first_life, nobody, one_a_step, undisturbed_by
from tests.services.s3_server import s3_server

SETTINGS = {
    "off_policy_steps": 1,
    "validate_every": 1,
    "retention": {"keep_last": 2, "keep_every": 0, "keep_best": 0},
}
SHORT = [
    Kill("after scoring", ("trainer",)),
    Kill("training begun", ("flow", "trainer")),
    Kill("weights saved", ("flow",)),
]
"""What `make test` has of the matrix."""
LOST = ["sampled, before scoring", "before training", "ledger written", "validated"]
"""Points at which flow and machine are lost together."""


@pytest.fixture(scope="module")
def first(precis: Precis) -> Iterator[Life]:
    with s3_server() as url, first_life(precis, url) as life:
        yield replace(life, steps=len(SHORT) + 2, more=SETTINGS)


@pytest.fixture(scope="module")
def undisturbed(first: Life, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    return undisturbed_by(first, tmp_path_factory.mktemp("ids"))


def adapters(life: Life) -> list[set[str]]:
    """The adapters that the summaries of each step are from, by the rollouts in the store."""
    found = []
    for step in range(life.steps):
        rollouts = scan_trajectories(life.store, "crash", "train", [step]).collect()
        found.append(set(rollouts["policy"]))
    return found


def test_each_step_is_sampled_from_the_adapter_before_its_own(
    first: Life, undisturbed: Undisturbed
) -> None:
    life = undisturbed(first.steps)
    before = [f"crash@{max(step - 1, 0)}" for step in range(life.steps)]
    assert adapters(life) == [{adapter} for adapter in before]
    assert [step.staleness for step in life.ledger.steps] == [0] + [1] * (life.steps - 1)


def test_sampling_goes_on_beside_training(first: Life, undisturbed: Undisturbed) -> None:
    turn, *beside = undisturbed(first.steps).ledger.steps
    assert turn.overlapped_s == 0
    assert all(step.overlapped_s > 0 for step in beside)


def test_a_stale_run_is_another_one_than_one_that_waits(
    first: Life, undisturbed: Undisturbed, tmp_path: Path
) -> None:
    """The same settings but for the overlap: else nothing here would show that it does anything."""
    waits = replace(first, name="waits", more={**SETTINGS, "off_policy_steps": 0})
    assert waits.live(nobody(tmp_path)) == 0
    begin, *mine = [step.digest for step in undisturbed(first.steps).ledger.steps]
    begins, *theirs = [step.digest for step in waits.ledger.steps]
    assert begin == begins
    assert not set(mine) & set(theirs)


def test_a_run_that_is_killed_ends_as_if_it_had_not_been(
    first: Life, undisturbed: Undisturbed, tmp_path: Path
) -> None:
    life = first.named("short")
    life.live_through(Kills(tmp_path, one_a_step(SHORT)))
    assert_undisturbed(life, undisturbed)
    assert_trained_once(life)


@pytest.mark.long
@pytest.mark.parametrize("victims", VICTIMS, ids="+".join)
def test_a_run_that_is_killed_at_every_point_ends_as_if_it_had_not_been(
    victims: tuple[Role, ...], first: Life, undisturbed: Undisturbed, tmp_path: Path
) -> None:
    kills = one_a_step(Kill(point, victims) for point in POINTS)
    life = first.named("+".join(victims), len(kills) + 2)
    life.live_through(Kills(tmp_path, kills))
    assert_undisturbed(life, undisturbed)
    assert_trained_once(life)


@pytest.mark.long
def test_a_run_whose_machine_is_lost_with_it_has_the_stale_adapter_from_the_store(
    first: Life, undisturbed: Undisturbed, tmp_path: Path
) -> None:
    lost = [Kill(point, ("flow", "trainer"), disk_is_lost=True) for point in LOST]
    life = first.named("lost", len(LOST) + 1)
    life.live_through(Kills(tmp_path, one_a_step(lost)))
    assert_undisturbed(life, undisturbed)


@pytest.mark.long
def test_a_stale_adapter_that_is_lost_everywhere_costs_the_overlap_of_one_step(
    first: Life, tmp_path: Path
) -> None:
    life = replace(first, name="without-stale", steps=3, more={**SETTINGS, "validate_every": 5})
    kill = Kill("ledger written", ("flow", "trainer"))
    assert life.live(Kills(tmp_path, [kill])) == -signal.SIGKILL
    assert life.ledger.next_step == 2
    shutil.rmtree(life.work / "trainer")
    life.store.delete("crash/checkpoints/0001/")
    assert life.live(nobody(tmp_path)) == 0
    assert [step.staleness for step in life.ledger.steps] == [0, 1, 0]
    assert "Step 2 is sampled from its own adapter." in life.log.read_text()


@pytest.mark.long
def test_a_run_that_is_told_to_end_commits_what_is_trained_and_gives_up_what_is_ahead(
    first: Life, undisturbed: Undisturbed, tmp_path: Path
) -> None:
    life = first.named("told")
    kills = Kills(tmp_path, [Kill("first file uploaded", ("flow",), by=signal.SIGTERM)])
    assert life.live(kills) != 0
    assert kills.done
    assert life.ledger.next_step == 2, "the commit in hand was not finished"
    assert life.live(nobody(tmp_path)) == 0
    assert_undisturbed(life, undisturbed)
    assert_trained_once(life)


def assert_undisturbed(life: Life, undisturbed: Undisturbed) -> None:
    calm = undisturbed(life.steps)
    assert adapters(life) == adapters(calm)
    assert life.outcome == calm.outcome


def assert_trained_once(life: Life) -> None:
    assert {life.trainings["trained", step] for step in range(life.steps)} == {1}
