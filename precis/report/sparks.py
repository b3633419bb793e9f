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
    lines: dict[str, list[tuple[int, float]]] = {}
    for each in ordered:
        for name, value in each.items():
            if name == "step":
                continue
            line = lines.setdefault(name, [])
            if _is_number(value):
                line.append((each["step"], float(value)))
    return [_spark(name, line) for name, line in lines.items() if len(line) > 1]


def _spark(name: str, line: list[tuple[int, float]]) -> Spark:
    thinned = [*line[:: max(1, len(line) // _SPARK_POINTS_MAX)], line[-1]]
    values = [value for _, value in line]
    first = line[0][0]
    steps = line[-1][0] - first or 1
    low = min(values)
    high = max(values)
    height = high - low or 1
    points = []
    for step, value in thinned:
        x = (step - first) / steps * _SPARK_WIDTH
        y = _SPARK_HEIGHT - 2 - (value - low) / height * (_SPARK_HEIGHT - 4)
        points.append(f"{x:.1f},{y:.1f}")
    return Spark(name.replace("_", " "), " ".join(points), values[0], values[-1], low, high)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
