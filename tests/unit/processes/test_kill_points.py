"""Points that the product names, and that do nothing unless a test asks for them."""

import re
from pathlib import Path

from precis.processes import kill_points
from precis.processes.kill_points import on_reaching, reached
from tests.services.crash_points import POINTS

ROOT = Path(__file__).parents[3]


def test_a_point_is_told_to_who_asked() -> None:
    told: list[tuple[str, int | None]] = []
    reached("nobody asked", 1)
    on_reaching(lambda point, step: told.append((point, step)))
    try:
        reached("manifest written", 2)
    finally:
        kill_points._hooks.clear()
    assert told == [("manifest written", 2)]


def test_every_point_of_the_crash_tests_is_one_of_the_product() -> None:
    named: set[str] = set()
    for folder in ("precis", "tasks"):
        for path in (ROOT / folder).rglob("*.py"):
            named.update(re.findall(r'reached\(f?"([^"]+)"', path.read_text()))
    counted = {"0 files uploaded", "1 files uploaded"}
    assert {point.reached for point in POINTS.values()} - counted <= named
    assert "{count} files uploaded" in named
