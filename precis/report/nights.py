"""The changes of contenders between benchmarks of several nights: in words, as an event and as a
chart."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import product

import polars as pl

from precis.markdown import escape, table
from precis.report.charts import Chart, Line, line_chart, shorten
from precis.report.curve import exact
from precis.report.wording import Words, name
from precis.statistics.intervals import CONFIDENCE, Difference, Interval
from precis.statistics.standings import (
    Contender,
    contenders,
    correct_p_values,
    difference,
    newest,
    rows_by,
    summarise,
)

REGRESSION = "precis.benchmark.regression"
"""The event that a benchmark emits when a contender is worse than before, beyond chance."""

_TICKS_MAX = 7
_STYLES = ("-", "--", ":", "-.")
"""Dashes, to distinguish neighbouring grey lines."""


@dataclass(frozen=True)
class NightlyChange:
    """The change of a contender since earlier nights, over the scenarios scored on both; its
    p-value is corrected for the number of compared contenders. `before` is the contender of earlier
    nights: itself, or the newest checkpoint."""

    contender: Contender
    before: Contender
    difference: Difference
    words: Words = field(default_factory=Words)

    @property
    def is_regression(self) -> bool:
        """True if worse beyond chance: the paired interval excludes zero, and the corrected p-value
        agrees, or a dozen contenders would raise a false alarm every fourth night."""
        interval = self.difference.accuracy
        return interval.high < 0 and self.difference.p_value <= 1 - CONFIDENCE

    def __str__(self) -> str:
        words = self.words
        since = "" if self.before == self.contender else f" against {self.before}"
        found = self.difference
        return (
            f"{self.contender}: {words.gap(found.accuracy.mean)}{words.unit}{since} "
            f"({words.gap_bounds(found.accuracy)}) on {words.nouns.count(found.documents)}, "
            f"corrected {found.chance}"
        )


@dataclass(frozen=True)
class Comparison:
    """A benchmark beside those of earlier nights.

    Attributes:
        before: their comparable rows; None without any.
        changes: the change of each contender since then, worst first.
        unread: why the results of an earlier night could not be read, or "".
    """

    before: pl.DataFrame | None = None
    changes: Sequence[NightlyChange] = ()
    unread: str = ""

    @property
    def regressions(self) -> list[NightlyChange]:
        """The contenders that are worse than before, beyond chance."""
        return [each for each in self.changes if each.is_regression]

    @property
    def nights(self) -> int:
        """The number of earlier benchmarks."""
        return 0 if self.before is None else self.before["run"].n_unique()

    @property
    def _earlier(self) -> str:
        count = self.nights
        return "the benchmark before" if count == 1 else f"the {count} benchmarks before"

    @property
    def verdict(self) -> str:
        """A sentence on the contenders that are worse, or that none is."""
        if self.unread:
            return f"Not compared with those before: {self.unread}"
        if not self.changes:
            return "No benchmark before this one has results to compare with."
        if not self.regressions:
            return f"No contender is worse than on {self._earlier}, beyond chance."
        return f"Worse than on {self._earlier}: {'; '.join(map(str, self.regressions))}."

    def section(self) -> str:
        """Return Markdown on every comparable contender, worst first; empty without any."""
        if not self.changes:
            return ""
        words = self.changes[0].words
        unit = "Points" if words.is_share else "Difference"
        since = f"Since {self._earlier}"
        head = [since, unit, "95 % interval", "Corrected", words.nouns.scenarios.capitalize()]
        rows = []
        for each in self.changes:
            found = each.difference
            gap = words.gap(found.accuracy.mean)
            bounds = words.gap_bounds(found.accuracy)
            rows.append([name(each.contender), gap, bounds, found.chance, str(found.documents)])
        return f"\n**{escape(self.verdict)}**\n\n{table(head, rows)}\n"


def compare_nights(tonight: pl.DataFrame, before: pl.DataFrame, words: Words) -> Comparison:
    """Compare every contender with itself in the comparable rows of benchmarks before, and the
    newest checkpoint with the newest before it.

    If a contender has the same score as before on every document, no test can detect a difference;
    it is listed, but not counted among the comparisons (Tarone, 1990).
    """
    if before.is_empty():
        return Comparison()
    then_there = contenders(before)
    pairs = [(each, each) for each in contenders(tonight) if each in then_there]
    for now, then in product(newest(contenders(tonight)), newest(then_there)):
        if now.model == then.model and now.step != then.step:
            pairs.append((now, then))
    measured = {}
    for now, then in pairs:
        change = difference(rows_by(tonight, now), rows_by(before, then))
        if change is not None:
            measured[now, then] = change
    different = [pair for pair, change in measured.items() if not change.is_none]
    corrected = correct_p_values([measured[pair] for pair in different])
    measured.update(zip(different, corrected, strict=True))
    found = [NightlyChange(*pair, change, words) for pair, change in measured.items()]
    found.sort(key=lambda each: each.difference.accuracy.mean)
    return Comparison(before, found)


@dataclass(frozen=True)
class NightlyAccuracy:
    """The result of a contender on one night; for a trained model, of its newest checkpoint."""

    night: datetime
    model: str
    accuracy: Interval
    trained: bool = False


def nights_of(frame: pl.DataFrame) -> list[NightlyAccuracy]:
    """Return every complete contender of every night, for a trained model the newest checkpoint;
    the rows' column `night` is the start of their benchmark."""
    found = []
    for rows in sorted(frame.partition_by("night"), key=lambda rows: rows["night"][0]):
        # Without older checkpoints.
        last = pl.concat(rows_by(rows, each) for each in newest(contenders(rows)))
        for standing in summarise(last):
            if standing.complete and standing.accuracy:
                model = standing.contender.model
                is_trained = standing.contender.step is not None
                night = rows["night"][0]
                found.append(NightlyAccuracy(night, model, standing.accuracy, is_trained))
    return found


def over_nights(nights: Iterable[NightlyAccuracy], worse: Iterable[str], words: Words) -> Chart:
    """Draw a line for each contender; those in `worse` have a triangle."""
    lines: dict[str, list[NightlyAccuracy]] = {}
    ordered = sorted(nights, key=lambda each: each.night)
    for each in ordered:
        lines.setdefault(each.model, []).append(each)
    times = sorted({each.night for each in ordered})
    title = f"{words.measure.capitalize()}, night by night"
    newest = [f"{model} {words.figure(line[-1].accuracy.mean)}" for model, line in lines.items()]
    alt = f"{title}, {len(times)} nights; the last: {'; '.join(newest)}"
    flagged = frozenset(worse)
    drawn = []
    for index, (model, line) in enumerate(lines.items()):
        points = {times.index(each.night): each.accuracy for each in line}
        mean = line[-1].accuracy.mean
        figure = f"{mean:.0%}" if words.is_share else words.figure(mean)
        label = f"{shorten(model)}  {figure if line[-1].night == times[-1] else 'not tonight'}"
        if not line[-1].trained:
            points = {place: exact(each.mean) for place, each in points.items()}
        if model in flagged:
            drawn.append(Line(f"▼ {label}", points, 1, marker="v"))
        elif line[-1].trained:
            drawn.append(Line(label, points, 0, marker="o", width=2.2))
        else:
            drawn.append(Line(label, points, 4, _STYLES[index % len(_STYLES)], marker="."))
    # Nights are evenly spaced, regardless of the time between them.
    ticks = {}
    for place in range(0, len(times), max(1, -(-len(times) // _TICKS_MAX))):
        night = times[place]
        several = sum(each.date() == night.date() for each in times) > 1
        ticks[place] = f"{night:%-d %b %H:%M}" if several else f"{night:%-d %b}"
    return line_chart(title, words.nouns.subtitle, drawn, alt, is_share=words.is_share, ticks=ticks)
