"""What has changed since the nights before, in words and as an event's payload."""

from collections.abc import Sequence
from typing import Any

from precis.report.wording import name
from precis.statistics.nights import NightlyChange

REGRESSION = "precis.benchmark.regression"
"""The event that a benchmark emits when a contender is worse than before, beyond chance."""


def nightly_section(changes: Sequence[NightlyChange], nights: int) -> str:
    """Markdown: every contender that can be compared, worst first; empty where none can be."""
    if not changes:
        return ""
    rows = [
        f"| {name(each.contender)} | {_points(each)} | {_interval(each)} | {_chance(each)} | "
        f"{each.difference.documents} |"
        for each in changes
    ]
    head = f"| Since {_earlier(nights)} | Points | 95 % interval | p, corrected | Documents |"
    return "\n".join(["", f"**{verdict_in_words(changes, nights)}**", "", head,
                      "| --- | --- | --- | --- | --- |", *rows, ""])  # fmt: skip


def verdict_in_words(changes: Sequence[NightlyChange], nights: int) -> str:
    """One sentence: who is worse, or that nobody is."""
    if not changes:
        return "There is no comparable benchmark before this one."
    worse = [str(each) for each in changes if each.is_regression]
    if not worse:
        return f"No contender is worse than on {_earlier(nights)}, beyond chance."
    return f"Worse than on {_earlier(nights)}: {'; '.join(worse)}."


def regression_payload(
    changes: Sequence[NightlyChange], nights: int, model: str, report: str
) -> dict[str, Any]:
    """What the event carries: a sentence for people, and the figures for programs."""
    return {
        "model": model,
        "report": report,
        "message": verdict_in_words(changes, nights),
        "nights": nights,
        "regressions": [
            {
                "contender": str(each.contender),
                "before": str(each.before),
                "points": round(100 * each.difference.accuracy.mean, 2),
                "low": round(100 * each.difference.accuracy.low, 2),
                "high": round(100 * each.difference.accuracy.high, 2),
                "p_value": each.difference.p_value,
                "documents": each.difference.documents,
            }
            for each in changes
            if each.is_regression
        ],
    }


def _earlier(nights: int) -> str:
    return "the benchmark before" if nights == 1 else f"the {nights} benchmarks before"


def _points(change: NightlyChange) -> str:
    return f"{100 * change.difference.accuracy.mean:+.1f}"


def _interval(change: NightlyChange) -> str:
    interval = change.difference.accuracy
    return f"{100 * interval.low:+.1f} to {100 * interval.high:+.1f}"


def _chance(change: NightlyChange) -> str:
    p_value = change.difference.p_value
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"
