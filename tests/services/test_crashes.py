"""The crash matrix: the flow, the trainer or both killed at every point of a step.

Each time the run is started again if its flow is dead, and must end with the same bits as the
run that nobody disturbed, every step trained once by the trainer's own log.
"""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.services.conftest import Precis
from tests.services.crash_points import POINTS, Kill, Role
from tests.services.kill_matrix import matrix
from tests.services.lives import Life, first_life, nobody
from tests.services.s3_server import s3_server

SHORT = {
    ("training begun", "trainer"),
    ("weights saved", "flow"),
    ("first file uploaded", "trainer"),
    ("pointer moved", "flow+trainer"),
    ("ledger written", "flow"),
}
"""What `make test` has of the matrix: each victim, before, within and after each of the writes."""

BEGUN = {"training begun", "before weights saved"}
"""Points at which a training is interrupted, whose weights are not saved: it begins again."""


@pytest.fixture(scope="module")
def first(precis: Precis) -> Iterator[Life]:
    with s3_server() as url, first_life(precis, url) as life:
        yield life


@pytest.fixture(scope="module")
def undisturbed(first: Life, tmp_path_factory: pytest.TempPathFactory) -> Any:
    assert first.live(nobody(tmp_path_factory.mktemp("ids"))) == 0
    assert set(first.trainings.values()) == {1}
    return first.outcome


@pytest.mark.parametrize(("point", "victims"), matrix(POINTS, SHORT))
def test_a_run_that_is_killed_ends_as_if_it_had_not_been(
    point: str, victims: tuple[Role, ...], first: Life, undisturbed: Any, tmp_path: Path
) -> None:
    name = f"{point} {'+'.join(victims)}".replace(" ", "-").replace(",", "")
    life = first.named(name)
    code = life.live(Kill(point, victims, str(tmp_path)))
    assert (tmp_path / "struck").exists(), "the run never got to that point"
    if "flow" in victims:
        assert code == -signal.SIGKILL
        assert life.trainings["trained", 0] == 1, "that point is not in the second step"
        code = life.live(nobody(tmp_path))
    assert code == 0
    assert life.outcome == undisturbed
    assert {life.trainings["trained", step] for step in range(life.steps)} == {1}
    if point not in BEGUN:
        assert {life.trainings["began", step] for step in range(life.steps)} == {1}
