"""One benchmark, ready to be shown: what the page and the artifact have in common."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from precis.report.bars import Bar, comparison
from precis.report.canvas import Chart
from precis.report.curve import StepPoint, learning_curve
from precis.report.standings import (
    Contender,
    Standing,
    differences,
    documents_to_see,
    rows_by,
    summarise,
)
from precis.report.statistics import Difference
from precis.report.wording import bounds, chance, name, percent, point_bounds, points


@dataclass(frozen=True)
class Headline:
    """A figure to read first."""

    label: str
    value: str
    detail: str


@dataclass(frozen=True)
class Benchmark:
    """The results of one run, summarised.

    Attributes:
        frame: all rows, in `precis.results.SCHEMA`.
        standings: every contender and checkpoint, best first.
        curve: what is known of each training step.
        ceiling: the judge's accuracy when it reads the full document; None where not measured.
        trained: the last checkpoint; None where nothing was trained.
        ahead: how far the last checkpoint is ahead of each other contender that is shown.
        documents_needed: documents it takes to see a difference of three points between the last
            checkpoint and the best of the others; None where there is nothing to compare.
    """

    frame: pl.DataFrame
    standings: tuple[Standing, ...]
    curve: tuple[StepPoint, ...]
    ceiling: float | None
    trained: Contender | None
    ahead: Mapping[Contender, Difference]
    documents_needed: int | None

    @property
    def shown(self) -> list[Standing]:
        """The contenders side by side: of the checkpoints only the first and the last."""
        return _side_by_side(self.standings)

    def charts(self) -> dict[str, Chart]:
        """The charts by file name: `learning-curve`, where something was trained, `comparison`."""
        drawn = {"comparison": self._comparison()}
        return {"learning-curve": self._learning_curve(), **drawn} if self.curve else drawn

    def headlines(self) -> list[Headline]:
        """How good the trained policy is, and how far ahead of its start and of the others."""
        own = next((each for each in self.standings if each.contender == self.trained), None)
        if own is None or own.accuracy is None:
            return []
        detail = f"{bounds(own.accuracy)}, {own.documents} documents"
        found = [Headline(name(own.contender), percent(own.accuracy.mean), detail)]
        found += [
            _lead(other, self.ahead[other]) for other in self._rivals() if other in self.ahead
        ]
        if self.ceiling:
            detail = f"the judge itself, from the full document: {percent(self.ceiling)}"
            share = own.accuracy / self.ceiling
            found.append(Headline("Share of the ceiling", percent(share.mean), detail))
        return found

    def _learning_curve(self) -> Chart:
        levels = {
            each.contender.model: each.accuracy.mean
            for each in self.standings
            if each.contender.step is None and each.complete and each.accuracy
        }
        return learning_curve(self.curve, levels, self.ceiling)

    def _comparison(self) -> Chart:
        bars = [
            Bar(name(each.contender), each.accuracy, each.contender == self.trained)
            for each in self.shown
            if each.complete and each.accuracy
        ]
        return comparison(bars, self.ceiling)

    def _rivals(self) -> list[Contender]:
        """The untrained start, and the best that was not trained here."""
        ranked = [each.contender for each in self.standings if each.complete]
        start = [each for each in ranked if each.step == 0]
        others = [each for each in ranked if each.step is None]
        return [*start[:1], *others[:1]]


def benchmark_of(
    frame: pl.DataFrame, curve: Sequence[StepPoint] = (), ceiling: float | None = None
) -> Benchmark:
    """Summarise the rows of one run.

    Args:
        frame: rows in `precis.results.SCHEMA`.
        curve: the training's steps; where the benchmark measured a checkpoint too, its accuracy
            takes the place of the training's own.
        ceiling: the judge's accuracy when it reads the full document.
    """
    standings = tuple(summarise(frame))
    checkpoints = [each.contender for each in standings if each.contender.step is not None]
    trained = max(checkpoints, key=lambda each: each.step or 0, default=None)
    others = [each.contender for each in _side_by_side(standings)]
    ahead = differences(frame, trained, others) if trained else {}
    best = next((each for each in others if each in ahead), None)
    needed = None
    if trained and best:
        needed = documents_to_see(rows_by(frame, trained), rows_by(frame, best))
    merged = _merge(curve, standings, trained)
    return Benchmark(frame, standings, merged, ceiling, trained, ahead, needed)


def _side_by_side(standings: Sequence[Standing]) -> list[Standing]:
    steps = [each.contender.step for each in standings if each.contender.step is not None]
    ends = {None, min(steps, default=None), max(steps, default=None)}
    return [each for each in standings if each.contender.step in ends]


def _merge(
    curve: Sequence[StepPoint], standings: Sequence[Standing], trained: Contender | None
) -> tuple[StepPoint, ...]:
    by_step = {point.step: point for point in curve}
    for standing in standings:
        step = standing.contender.step
        if step is not None and trained is not None and standing.contender.model == trained.model:
            point = by_step.get(step, StepPoint(step))
            by_step[step] = replace(point, accuracy=standing.accuracy)
    return tuple(by_step[step] for step in sorted(by_step))


def _lead(other: Contender, ahead: Difference) -> Headline:
    detail = f"{point_bounds(ahead.accuracy)}, {chance(ahead)}"
    return Headline(f"Ahead of {name(other)}", points(ahead.accuracy), detail)
