"""The learning curve: how a policy came to keep more, step by step."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
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
    rewards = {one.step: one.reward for one in ordered if one.reward is not None}
    second = {one.step: one.second for one in ordered if one.second is not None}
    held = {one.step: one.accuracy for one in ordered if one.accuracy is not None}
    alt = f"{words.title}: no step was validated yet"
    if held:
        ends = (min(held), max(held))
        shown = [f"{words.figure(held[step].mean, 1)} at step {step}" for step in ends]
        alt = f"{words.title}: {', '.join(shown)}"
    drawn = [*(level for _, level in levels), *rewards.values(), *second.values()]
    if ceiling:
        drawn.append(ceiling)
    for accuracy in held.values():
        drawn += [accuracy.low, accuracy.high]

    def draw(figure: Figure, theme: Theme) -> None:
        headline(figure, theme, _CURVE_SIZE, words.title, f"{words.subtitle}; 95% interval")
        widest = max(len(name) for name in ["the ceiling", *(name for name, _ in levels)])
        right = max(2.0, 0.35 + _CHARACTER * (widest + len("  99%")))
        axes = axes_in(figure, theme, _CURVE_SIZE, (_LEFT, _BOTTOM, right, _TOP))
        labels = []
        for name, level in levels:
            axes.axhline(level, color=theme.muted, linewidth=1, linestyle=(0, (5, 3)), alpha=0.8)
            labels.append(Label(f"{name}  {words.figure(level)}", level, theme.muted))
        if ceiling is not None:
            axes.axhline(ceiling, color=theme.ink, linewidth=1.2, linestyle=(0, (1, 2)))
            labels.append(Label(f"the ceiling  {words.figure(ceiling)}", ceiling, theme.ink))
        labels += _curves(axes, theme, rewards, second, held, words)
        axes.grid(axis="y", color=theme.grid, linewidth=0.9)
        if words.is_share:
            _percent_axis(axes, drawn or [0.0, 1.0])
        axes.set_xlim(0, max([1, *(point.step for point in ordered)]))
        axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True, steps=[1, 2, 5, 10]))
        axes.set_xlabel("training step", color=theme.muted, labelpad=6)
        label_ends(axes, labels)

    return Chart(draw, _CURVE_SIZE, alt)


def _curves(
    axes: Axes,
    theme: Theme,
    rewards: Mapping[int, float],
    second: Mapping[int, float],
    held: Mapping[int, Interval],
    words: CurveWords,
) -> list[Label]:
    labels = []
    if rewards:
        # A trailing mean over a fiftieth of the run: a thousand noisy steps would hide the rest.
        raw = list(rewards.values())
        window = max(1, len(raw) // _SMOOTH_PARTS)
        smooth = [fmean(raw[max(0, end - window) : end]) for end in range(1, len(raw) + 1)]
        axes.plot(list(rewards), smooth, color=theme.second, linewidth=1.1, alpha=0.6)
        labels.append(Label("training reward", smooth[-1], theme.second))
    if second:
        opinions = list(second.values())
        axes.plot(list(second), opinions, color=theme.accent, linewidth=1.4, linestyle=(0, (3, 2)))
        text = f"second judge  {words.figure(opinions[-1])}"
        labels.append(Label(text, opinions[-1], theme.accent))
    if held:
        means = shade_intervals(axes, list(held), list(held.values()), theme.accent)
        axes.plot(
            list(held),
            means,
            color=theme.accent,
            linewidth=2.2,
            marker="o" if len(held) <= _MARKERS_MAX else "",
            markersize=4.5,
            clip_on=False,
            zorder=3,
        )
        text = f"trained  {words.figure(means[-1])}"
        labels.append(Label(text, means[-1], theme.accent, bold=True))
    return labels


def _percent_axis(axes: Axes, drawn: Sequence[float]) -> None:
    """Ten-point steps around everything that is drawn."""
    low = min(0.8, max(0.0, (min(drawn) - 0.03) // 0.1 * 0.1))
    high = min(1.0, -(-(max(drawn) + 0.03) // 0.1) * 0.1)
    axes.set_ylim(low, max(high, low + 0.2))
    axes.yaxis.set_major_locator(MultipleLocator(0.1 if high - low < 0.65 else 0.2))
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
