"""Every point of a run with every choice of whom to kill there, as pytest's parameters."""

from collections.abc import Collection, Iterable
from itertools import product
from typing import Any

import pytest

from tests.services.crash_points import VICTIMS


def matrix(points: Iterable[str], short: Collection[tuple[str, str]]) -> list[Any]:
    """A point and its victims each; `make test` runs those that are short alone."""
    cases = []
    for point, victims in product(points, VICTIMS):
        names = "+".join(victims)
        marks = () if (point, names) in short else pytest.mark.long
        cases.append(pytest.param(point, victims, id=f"{point}-{names}", marks=marks))
    return cases
