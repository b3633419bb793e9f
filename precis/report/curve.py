"""The learning curve: how a policy came to keep more, step by step."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, MultipleLocator, PercentFormatter

from precis.records.ledger import Ledger, Metric
from precis.report.charts import (
    Chart,
    Size,
    Theme,
    axes_in,
    headline,
    shade_intervals,
    shorten,
)
from precis.report.labels import Label, label_ends
from precis.statistics.intervals import Interval

_CURVE_SIZE: Size = (8.4, 4.6)
_LEFT = 0.68
_BOTTOM = 0.62
_TOP = 0.92
_CHARACTER = 0.082
_LABEL_GAP = 0.062
_MARKERS_MAX = 40
"""More validations than this, and their markers would melt into a thick line."""
_SMOOTH_PARTS = 50


@dataclass(frozen=True)
class StepPoint:
    """The values of a step that the learning curve needs.

    Attributes:
        step: the checkpoint that sampled and was validated; 0 is the untrained start.
        reward: mean reward of its rollouts; None for the last checkpoint, which samples none.
        accuracy: on the held-out documents; None where the step was not validated.
        second: the same by a second judge; None where there is none.
        seconds: wall time of the step.
    """

    step: int
    reward: float | None = None
    accuracy: Interval | None = None
    seconds: float | None = None
    second: float | None = None

    @classmethod
    def of(cls, metrics: Mapping[str, Any]) -> Self:
        """Read step, reward, accuracy, accuracy_low, accuracy_high and seconds, where given."""
        mean = metrics.get("accuracy")
        low = metrics.get("accuracy_low", mean)
        high = metrics.get("accuracy_high", mean)
        accuracy = None if mean is None else Interval(mean, low, high)
        return cls(metrics["step"], metrics.get("reward"), accuracy, metrics.get("seconds"))


def curve_of(ledger: Ledger) -> list[StepPoint]:
    """Return the learning curve as the ledger knows it: a point for each adapter."""
    accuracies = {one.step: interval_of(one.score) for one in ledger.validations}
    opinions = {one.step: one.second.value for one in ledger.validations if one.second}
    points = []
    for one in ledger.steps:
        took = sum(one.seconds.values())
        at = one.step
        points.append(StepPoint(at, one.reward, accuracies.get(at), took, opinions.get(at)))
    at = ledger.next_step
    return [*points, StepPoint(at, accuracy=accuracies.get(at), second=opinions.get(at))]


def interval_of(metric: Metric) -> Interval:
    """Return a metric with its interval; without one, both ends are the value."""
    low = metric.value if metric.low is None else metric.low
    high = metric.value if metric.high is None else metric.high
    return Interval(metric.value, low, high)


@dataclass(frozen=True)
class CurveWords:
    """The words of a learning curve.

    Attributes:
        title: the chart's headline.
        subtitle: says what is measured.
        is_share: whether that is between 0 and 1, and shown as a percentage.
    """

    title: str = "Held-out score, by training step"
    subtitle: str = "On held-out scenarios, greedy"
    is_share: bool = True

    def figure(self, value: float, digits: int = 0) -> str:
        """Return a value as it is written."""
        return f"{value:.{digits}%}" if self.is_share else f"{value:.3g}"


_PLAIN = CurveWords()


def learning_curve(
    points: Iterable[StepPoint],
    baselines: Mapping[str, float] | None = None,
    ceiling: float | None = None,
    words: CurveWords = _PLAIN,
) -> Chart:
    """Draw held-out score by step with its 95 % band, the training reward faintly behind it;
    contenders that do not train, and the ceiling, are level lines."""
    ordered = sorted(points, key=lambda point: point.step)
    levels = [(shorten(name), level) for name, level in (baselines or {}).items()]
    draw = partial(_draw_curve, ordered, levels, ceiling, words)
    return Chart(draw, _CURVE_SIZE, _curve_alt(ordered, words))


def _draw_curve(
    points: Sequence[StepPoint],
    baselines: Sequence[tuple[str, float]],
    ceiling: float | None,
    words: CurveWords,
    figure: Figure,
    theme: Theme,
) -> None:
    headline(figure, theme, _CURVE_SIZE, words.title, f"{words.subtitle}; 95% interval")
    names = [name for name, _ in baselines]
    widest = max(map(len, [*names, "the ceiling"]))
    right = max(2.0, 0.35 + _CHARACTER * (widest + len("  99%")))
    axes = axes_in(figure, theme, _CURVE_SIZE, (_LEFT, _BOTTOM, right, _TOP))
    labels = [
        *_levels(axes, theme, baselines, ceiling, words),
        *_curves(axes, theme, points, words),
    ]
    levels = [level for _, level in baselines]
    if ceiling:
        levels.append(ceiling)
    if words.is_share:
        _percent_axis(axes, theme, points, levels)
    else:
        axes.grid(axis="y", color=theme.grid, linewidth=0.9)
    last = max((point.step for point in points), default=1)
    axes.set_xlim(0, max(last, 1))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True, steps=[1, 2, 5, 10]))
    axes.set_xlabel("training step", color=theme.muted, labelpad=6)
    low, high = axes.get_ylim()
    label_ends(axes, labels, gap=(high - low) * min(_LABEL_GAP, 1 / max(1, len(labels))))


def _rewards(points: Sequence[StepPoint]) -> list[tuple[int, float]]:
    """Return the training reward of each step that has one."""
    return [(point.step, point.reward) for point in points if point.reward is not None]


def _validations(points: Sequence[StepPoint]) -> list[tuple[int, Interval]]:
    """Return the accuracy of each step that was validated."""
    return [(point.step, point.accuracy) for point in points if point.accuracy is not None]


def _opinions(points: Sequence[StepPoint]) -> list[tuple[int, float]]:
    """Return the second judge's accuracy of each step that it ruled on."""
    return [(point.step, point.second) for point in points if point.second is not None]


def _curves(
    axes: Axes, theme: Theme, points: Sequence[StepPoint], words: CurveWords
) -> list[Label]:
    labels = []
    rewards = _rewards(points)
    if rewards:
        steps, raw = zip(*rewards, strict=True)
        values = _smooth(raw)
        axes.plot(steps, values, color=theme.second, linewidth=1.1, alpha=0.6)
        labels.append(Label("training reward", values[-1], theme.second))
    second = _opinions(points)
    if second:
        steps, values = zip(*second, strict=True)
        axes.plot(steps, values, color=theme.accent, linewidth=1.4, linestyle=(0, (3, 2)))
        labels.append(Label(f"second judge  {words.figure(values[-1])}", values[-1], theme.accent))
    held = _validations(points)
    if held:
        steps, accuracies = zip(*held, strict=True)
        means = shade_intervals(axes, steps, accuracies, theme.accent)
        marker = "o" if len(held) <= _MARKERS_MAX else ""
        axes.plot(
            steps,
            means,
            color=theme.accent,
            linewidth=2.2,
            marker=marker,
            markersize=4.5,
            clip_on=False,
            zorder=3,
        )
        last = held[-1][1].mean
        labels.append(Label(f"trained  {words.figure(last)}", last, theme.accent, bold=True))
    return labels


def _smooth(values: Sequence[float]) -> Sequence[float]:
    """Return a trailing mean over a fiftieth of the run: a thousand noisy steps would hide the
    rest."""
    window = max(1, len(values) // _SMOOTH_PARTS)
    means = []
    for end in range(1, len(values) + 1):
        recent = values[max(0, end - window) : end]
        means.append(sum(recent) / len(recent))
    return means


def _levels(
    axes: Axes,
    theme: Theme,
    baselines: Sequence[tuple[str, float]],
    ceiling: float | None,
    words: CurveWords,
) -> list[Label]:
    labels = []
    for name, level in baselines:
        axes.axhline(level, color=theme.muted, linewidth=1, linestyle=(0, (5, 3)), alpha=0.8)
        labels.append(Label(f"{name}  {words.figure(level)}", level, theme.muted))
    if ceiling is not None:
        axes.axhline(ceiling, color=theme.ink, linewidth=1.2, linestyle=(0, (1, 2)))
        labels.append(Label(f"the ceiling  {words.figure(ceiling)}", ceiling, theme.ink))
    return labels


def _percent_axis(
    axes: Axes, theme: Theme, points: Sequence[StepPoint], levels: Sequence[float]
) -> None:
    """Ten-point steps around everything that is drawn."""
    drawn = list(levels)
    for _, value in (*_rewards(points), *_opinions(points)):
        drawn.append(value)
    for _, accuracy in _validations(points):
        drawn += [accuracy.low, accuracy.high]
    drawn = drawn or [0.0, 1.0]
    low = min(0.8, max(0.0, (min(drawn) - 0.03) // 0.1 * 0.1))
    high = min(1.0, -(-(max(drawn) + 0.03) // 0.1) * 0.1)
    axes.set_ylim(low, max(high, low + 0.2))
    axes.yaxis.set_major_locator(MultipleLocator(0.1 if high - low < 0.65 else 0.2))
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.grid(axis="y", color=theme.grid, linewidth=0.9)


def _curve_alt(points: Sequence[StepPoint], words: CurveWords) -> str:
    held = _validations(points)
    if not held:
        return f"{words.title}: no step was validated yet"
    first, start = held[0]
    last, end = held[-1]
    values = [words.figure(one.mean, 1) for one in (start, end)]
    return f"{words.title}: {values[0]} at step {first}, {values[1]} at step {last}"
