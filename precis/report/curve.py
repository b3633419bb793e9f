"""The learning curve: a policy's scores, step by step."""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import fmean

from precis.records.ledger import Ledger, Metric
from precis.report.charts import Chart, Line, line_chart, shorten
from precis.statistics.intervals import Interval

_SMOOTH_PARTS = 50
_ACCENT = 0
_SECOND = 1
_GREY = 4
"""Indices of a theme's colours."""


@dataclass(frozen=True)
class StepPoint:
    """A step's values for the learning curve.

    Attributes:
        step: the checkpoint that was sampled from and validated; 0 is the untrained start.
        reward: mean reward of its rollouts; None for the last checkpoint, which has none.
        accuracy: on the held-out documents; None if the step was not validated.
        second: the same by a second judge, or None.
    """

    step: int
    reward: float | None = None
    accuracy: Interval | None = None
    second: float | None = None


def curve_of(ledger: Ledger) -> list[StepPoint]:
    """Return the ledger's learning curve, a point for each adapter."""
    points = {}
    for one in ledger.steps:
        points[one.step] = StepPoint(one.step, one.reward)
    points[ledger.next_step] = StepPoint(ledger.next_step)
    for validation in ledger.validations:
        if validation.step in points:
            points[validation.step] = replace(
                points[validation.step],
                accuracy=interval_of(validation.score),
                second=validation.second.value if validation.second else None,
            )
    return list(points.values())


def interval_of(metric: Metric) -> Interval:
    """Return a metric with its interval; without one, both ends are the value."""
    low = metric.value if metric.low is None else metric.low
    high = metric.value if metric.high is None else metric.high
    return Interval(metric.value, low, high)


def exact(value: float) -> Interval:
    """Return an interval without a width."""
    return Interval(value, value, value)


def learning_curve(
    points: Iterable[StepPoint],
    baselines: Mapping[str, float] | None = None,
    ceiling: float | None = None,
    *,
    title: str = "Held-out score, by training step",
    subtitle: str = "On held-out scenarios, greedy",
    is_share: bool = True,
) -> Chart:
    """Draw the held-out score by step with its 95 % band, and the training reward faintly behind
    it, unless it exceeds the scale; other contenders and the ceiling are level lines."""

    def written(value: float, digits: int = 0) -> str:
        return f"{value:.{digits}%}" if is_share else f"{value:.3g}"

    ordered = sorted(points, key=lambda point: point.step)
    held = {}
    second = {}
    rewards: dict[int, float] = {}
    for one in ordered:
        if one.accuracy is not None:
            held[one.step] = one.accuracy
        if one.second is not None:
            second[one.step] = exact(one.second)
        if one.reward is not None:
            rewards[one.step] = one.reward
    lines = []
    alt = f"{title}: no step was validated yet"
    if held:
        ends = (min(held), max(held))
        shown = [f"{written(held[step].mean, 1)} at step {step}" for step in ends]
        alt = f"{title}: {', '.join(shown)}"
        trained = f"trained  {written(held[ends[1]].mean)}"
        lines.append(Line(trained, held, _ACCENT, marker="o", width=2.2))
    # A trailing mean over a fiftieth of the run: a thousand noisy steps would hide the rest.
    window = max(1, len(rewards) // _SMOOTH_PARTS)
    recent: deque[float] = deque(maxlen=window)
    smooth = {}
    for step, reward in rewards.items():
        recent.append(reward)
        smooth[step] = exact(fmean(recent))
    # Rewards of another scale would be cut off; without a validation the scale is theirs.
    are_shares = all(0 <= one.mean <= 1 for one in smooth.values())
    has_shares = is_share and (are_shares or bool(held))
    if are_shares or not has_shares:
        lines.append(Line("training reward", smooth, _SECOND))
    if second:
        opinion = written(second[max(second)].mean)
        lines.append(Line(f"second judge  {opinion}", second, _ACCENT, "--"))
    steps = (0, max(1, ordered[-1].step if ordered else 1))
    for name, level in (baselines or {}).items():
        label = f"{shorten(name)}  {written(level)}"
        lines.append(Line(label, dict.fromkeys(steps, exact(level)), _GREY, "--"))
    if ceiling is not None:
        label = f"the ceiling  {written(ceiling)}"
        lines.append(Line(label, dict.fromkeys(steps, exact(ceiling)), _GREY, ":"))
    return line_chart(title, f"{subtitle}; 95% interval", lines, alt, is_share=has_shares)
