"""A step that takes documents in place of those that teach nothing is the same after a kill."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.services.conftest import Precis
from tests.services.crash_points import Kill, Role
from tests.services.lives import Life, first_life, live_through, nobody
from tests.services.s3_server import s3_server

pytestmark = pytest.mark.long  # test_crashes.py has steps that replace nothing

STEPS = 3
SETTINGS = {
    # Of two summaries alone many groups have no variance.
    "rollouts": {
        "groups_per_step": 3,
        "rollouts_per_group": 2,
        "scored_min": 2,
        "replacements_max": 3,
    },
}


@pytest.fixture(scope="module")
def undisturbed(precis: Precis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    with s3_server() as url, first_life(precis, url) as life:
        first = replace(life, steps=STEPS, more=SETTINGS)
        assert first.live(nobody(tmp_path_factory.mktemp("ids"))) == 0, first.log.read_text()
        assert sum(step.groups_added for step in first.ledger.steps), "no group was replaced"
        yield first


@pytest.mark.parametrize(
    ("point", "victims"),
    [
        ("sampled, before scoring", ("flow",)),
        ("after scoring", ("flow", "trainer")),
        ("weights saved", ("trainer",)),
    ],
)
def test_a_run_that_is_killed_ends_as_if_it_had_not_been(
    point: str, victims: tuple[Role, ...], undisturbed: Life, tmp_path: Path
) -> None:
    life = live_through(undisturbed, Kill(point, victims, str(tmp_path)))
    expected: Any = undisturbed.outcome
    assert life.outcome == expected
