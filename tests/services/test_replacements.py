"""A step that takes documents in place of those that teach nothing is the same after a kill."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.services.conftest import Precis
from tests.services.crash_points import Kill, Kills
from tests.services.lives import Life, first_life, nobody, one_a_step
from tests.services.s3_server import s3_server

pytestmark = pytest.mark.long  # in test_crashes.py no step replaces a document

SETTINGS = {
    # Of two summaries alone many groups have no variance.
    "rollouts": {
        "groups_per_step": 3,
        "rollouts_per_group": 2,
        "scored_min": 2,
        "replacements_max": 3,
    },
}
KILLS = [
    Kill("sampled, before scoring", ("flow",)),
    Kill("after scoring", ("flow", "trainer")),
    Kill("weights saved", ("trainer",)),
]


@pytest.fixture(scope="module")
def undisturbed(precis: Precis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    with s3_server() as url, first_life(precis, url) as life:
        first = replace(life, steps=len(KILLS) + 1, more=SETTINGS)
        assert first.live(nobody(tmp_path_factory.mktemp("ids"))) == 0, first.log.read_text()
        added = [step.groups_added for step in first.ledger.steps]
        assert all(added[1:]), "no group was replaced in a step that is to be killed"
        yield first


def test_a_run_that_is_killed_ends_as_if_it_had_not_been(undisturbed: Life, tmp_path: Path) -> None:
    life = undisturbed.named("killed")
    life.live_through(Kills(tmp_path, one_a_step(KILLS)))
    expected: Any = undisturbed.outcome
    assert life.outcome == expected
