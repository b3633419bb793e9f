"""Metrics over the steps, each as a line small enough to stand in a row of others."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_SPARK_WIDTH = 200
_SPARK_HEIGHT = 44
_SPARK_POINTS_MAX = 200


@dataclass(frozen=True)
class Spark:
    """A metric over the steps, small: `path` holds the points of an SVG polyline."""

    name: str
    path: str
    first: float
    last: float
    low: float
    high: float


def sparks(metrics: Sequence[Mapping[str, Any]]) -> list[Spark]:
    """One small line for each numeric metric that was logged at two steps or more."""
    ordered = sorted(metrics, key=lambda each: each["step"])
    names = dict.fromkeys(name for each in ordered for name in each if name != "step")
    lines = {
        name: [(each["step"], float(each[name])) for each in ordered if _is_number(each.get(name))]
        for name in names
    }
    return [_spark(name, line) for name, line in lines.items() if len(line) > 1]


def _spark(name: str, line: list[tuple[int, float]]) -> Spark:
    thinned = [*line[:: max(1, len(line) // _SPARK_POINTS_MAX)], line[-1]]
    values = [value for _, value in line]
    (first, _) = line[0]
    (last, _) = line[-1]
    low = min(values)
    high = max(values)
    path = " ".join(
        f"{(step - first) / (last - first or 1) * _SPARK_WIDTH:.1f},"
        f"{_SPARK_HEIGHT - 2 - (value - low) / (high - low or 1) * (_SPARK_HEIGHT - 4):.1f}"
        for step, value in thinned
    )
    return Spark(name.replace("_", " "), path, values[0], values[-1], low, high)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
