"""A benchmark's data for the page and the artifact."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product

import polars as pl

from precis.records.nouns import COMPARED, PREFERRED, Figure
from precis.records.questions import QUESTIONS
from precis.records.results import ATTEMPTS
from precis.report.curve import StepPoint
from precis.report.nights import NightlyAccuracy, nights_of
from precis.report.wording import Words, heading, name, number, percent
from precis.statistics.comparisons import Pair, differences, documents_to_see
from precis.statistics.intervals import DOCUMENTS_MIN, Difference, Interval
from precis.statistics.nights import NightlyChange
from precis.statistics.standings import (
    Contender,
    Standing,
    accuracy_of,
    count_with,
    figure_of,
    metric_names,
    pass_at,
    rows_by,
    scores_by_scenario,
    sizes_up_to,
    success_of,
    summarise,
    turns_of_successes,
)

Topics = Mapping[str, Mapping[Contender, Interval]]
Columns = Mapping[str, Mapping[Contender, str]]


@dataclass(frozen=True)
class Headline:
    """A figure of the summary."""

    label: str
    value: str
    detail: str


@dataclass(frozen=True)
class Benchmark:
    """The results of one run, summarised.

    Attributes:
        frame: all rows, in `precis.records.results.SCHEMA`.
        questions: the questions about the rollouts, in `precis.records.questions.QUESTIONS`.
        standings: every contender and checkpoint, best first.
        curve: a point for each training step.
        ceiling: the best that any policy could reach; None if unknown.
        trained: the last checkpoint; None without a trained model.
        ahead: the last checkpoint's lead over each other shown contender.
        pairs: each ranked contender's lead over each lower one.
        topics: accuracy of the shown contenders by topic.
        documents_needed: documents needed to detect a difference of three points between the last
            checkpoint and the best of the others, or between the two best without a trained model;
            None without a comparison, with too few documents, and for a measure that is not a
            share.
        nights: accuracy by night, tonight included; empty without earlier nights.
        changes: each contender's change since earlier nights, worst first.
        words: those of the environment.
        columns: the table's further figures as text, by heading and contender.
        turns: the turns of a success, by contender; empty if the environment names its own columns.
        attempts: the sampled attempts, in `precis.records.results.ATTEMPTS`.
    """

    frame: pl.DataFrame
    questions: pl.DataFrame
    standings: tuple[Standing, ...]
    curve: tuple[StepPoint, ...]
    ceiling: float | None
    trained: Contender | None
    ahead: Mapping[Pair, Difference]
    pairs: Mapping[Pair, Difference]
    topics: Topics
    documents_needed: int | None
    nights: tuple[NightlyAccuracy, ...]
    changes: tuple[NightlyChange, ...]
    words: Words
    columns: Columns
    turns: Mapping[Contender, Interval]
    attempts: pl.DataFrame

    @property
    def shown(self) -> list[Standing]:
        """The contenders, with only the first and the last of the checkpoints."""
        return side_by_side(self.standings)

    @property
    def regressions(self) -> list[NightlyChange]:
        """The contenders that are worse than on earlier nights, beyond chance."""
        return [each for each in self.changes if each.is_regression]

    def headlines(self) -> list[Headline]:
        """Return the trained policy's results, and its lead over its start and over the others."""
        own = next((one for one in self.standings if one.contender == self.trained), None)
        if own is None or own.accuracy is None:
            return []
        words = self.words
        detail = f"{words.bounds(own.accuracy)}, {words.nouns.count(own.documents)}"
        headlines = [Headline(name(own.contender), words.figure(own.accuracy.mean), detail)]
        # The untrained start, and the best other contender.
        first: dict[int | None, Contender] = {}
        for each in self.standings:
            if each.complete:
                first.setdefault(each.contender.step, each.contender)
        for step in (0, None):
            other = first.get(step)
            if other is not None and (own.contender, other) in self.ahead:
                ahead = self.ahead[own.contender, other]
                detail = f"{words.gap_bounds(ahead.accuracy)}, {ahead.chance}"
                gap = f"{words.gap(ahead.accuracy)}{words.unit}"
                headlines.append(Headline(f"Ahead of {name(other)}", gap, detail))
        if self.ceiling is not None:
            value, detail = "–", "the ceiling is 0"
            if self.ceiling and own.documents < DOCUMENTS_MIN:
                detail = f"too few {words.nouns.scenarios} to say ({own.documents})"
            elif self.ceiling:
                share = own.accuracy / self.ceiling
                value = percent(share.mean)
                best = words.figure(self.ceiling)
                detail = f"{Words().bounds(share)}, of the {best} that can be reached"
            headlines.append(Headline("Share of the ceiling", value, detail))
        return headlines


def benchmark_of(
    frame: pl.DataFrame,
    curve: Sequence[StepPoint] = (),
    ceiling: float | None = None,
    before: pl.DataFrame | None = None,
    changes: Sequence[NightlyChange] = (),
    questions: pl.DataFrame | None = None,
    words: Words | None = None,
    attempts: pl.DataFrame | None = None,
) -> Benchmark:
    """Summarise the rows of one run, in `precis.records.results.SCHEMA`.

    For checkpoints that the benchmark has ranked, its accuracy replaces the training's. `before`
    are the rows of earlier nights, to be drawn with these.
    """
    words = words or Words()
    attempts = ATTEMPTS.to_frame() if attempts is None else attempts
    standings = tuple(summarise(frame))
    checkpoints = [each.contender for each in standings if each.contender.step is not None]
    trained = max(checkpoints, key=lambda each: each.step or 0, default=None)
    compared = side_by_side(standings)
    shown = [each.contender for each in compared]
    others = [each for each in shown if each != trained]
    ranked = select_ranked(compared)
    two = sorted(ranked, key=lambda each: each != trained)[:2]
    needed = None
    if len(two) == 2 and words.is_share:
        needed = documents_to_see(rows_by(frame, two[0]), rows_by(frame, two[1]))
    turns = {}
    if words.columns is None:
        for contender in select_ranked(standings):
            taken = turns_of_successes(rows_by(frame, contender))
            if taken is not None:
                turns[contender] = taken
    by_step = {point.step: point for point in curve}
    for contender, accuracy in select_ranked(standings).items():
        step = contender.step
        if step is not None:
            by_step[step] = replace(by_step.get(step, StepPoint(step)), accuracy=accuracy)
    return Benchmark(
        frame=frame,
        questions=QUESTIONS.to_frame() if questions is None else questions,
        standings=standings,
        curve=tuple(by_step[step] for step in sorted(by_step)),
        ceiling=ceiling,
        trained=trained,
        ahead=differences(frame, product([trained] if trained else [], others)),
        pairs=differences(frame, combinations(ranked, 2)),
        topics=accuracy_by_topic(frame, shown),
        documents_needed=needed,
        nights=() if before is None else tuple(nights_of([before, frame])),
        changes=tuple(changes),
        words=words,
        columns=columns_of(frame, attempts, standings, words),
        attempts=attempts,
        turns=turns,
    )


def accuracy_by_topic(frame: pl.DataFrame, contenders: Sequence[Contender]) -> Topics:
    """Return the accuracy of each contender on the scored documents of each topic."""
    topics: dict[str, dict[Contender, Interval]] = {}
    for contender in contenders:
        rows = rows_by(frame, contender)
        for topic in sorted(rows["topic"].drop_nulls().replace("", None).drop_nulls().unique()):
            accuracy = accuracy_of(scores_by_scenario(rows.filter(pl.col("topic") == topic)))
            if accuracy is not None:
                topics.setdefault(topic, {})[contender] = accuracy
    return dict(sorted(topics.items()))


def select_ranked(standings: Iterable[Standing]) -> dict[Contender, Interval]:
    """Return the accuracy of the complete and scored contenders, which charts compare, best
    first."""
    ranked = {}
    for each in standings:
        if each.complete and each.accuracy:
            ranked[each.contender] = each.accuracy
    return ranked


def side_by_side(standings: Sequence[Standing]) -> list[Standing]:
    """Return all contenders, with only the first and the last of the checkpoints."""
    steps = [each.contender.step for each in standings if each.contender.step is not None]
    ends = {None, min(steps, default=None), max(steps, default=None)}
    return [each for each in standings if each.contender.step in ends]


def columns_of(
    frame: pl.DataFrame, attempts: pl.DataFrame, standings: Sequence[Standing], words: Words
) -> Columns:
    """Return the columns of the environment, or an agent's defaults: the mean of each metric, the
    turns of a success, the reward, the successes, pass@k (of `attempts`) and the tokens."""
    rows = {each.contender: rows_by(frame, each.contender) for each in standings}
    if words.columns is not None:
        named: dict[str, dict[Contender, str]] = {}
        for figure in words.columns:
            write = percent if figure.is_share else number
            column = named.setdefault(heading(figure.name), {})
            for contender, one in rows.items():
                column[contender] = write(figure_of(one, figure))
        return named
    known = {words.measure, "success", "reward", PREFERRED, COMPARED}
    columns: dict[str, Mapping[Contender, str]] = {}
    for metric in metric_names(frame):
        if metric not in known:
            columns[heading(metric)] = _means(metric, rows)
    turns = {}
    shares = {}
    for each, one in rows.items():
        turns[each] = turns_of_successes(one)
        shares[each] = success_of(one)
    has_successes = any(shares.values())
    if has_successes:
        columns["Turns of a success"] = _with_intervals(turns, is_share=False)
    if words.measure != words.nouns.reward and "reward" in metric_names(frame):
        columns[heading(words.nouns.reward)] = _means("reward", rows)
    if has_successes and words.measure != words.nouns.success:
        columns[heading(words.nouns.success)] = _with_intervals(shares, is_share=True)
    for k in sizes_up_to(attempts["attempt"].n_unique()):
        found = {each: pass_at(rows_by(attempts, each), k) for each in rows}
        if any(found.values()):
            columns[f"pass@{k}"] = _with_intervals(found, is_share=True)
    for count in ("prompt_tokens", "completion_tokens"):
        if frame[count].count():
            means = {}
            for each, one in rows.items():
                mean = one[count].cast(pl.Float64).mean()
                means[each] = number(mean if isinstance(mean, float) else None)
            columns[f"{heading(count)} a {words.nouns.rollout}"] = means
    return columns


def _means(name: str, rows: Mapping[Contender, pl.DataFrame]) -> dict[Contender, str]:
    """Return the mean of a metric, with the number of rollouts if only some have it."""
    column = {}
    for contender, one in rows.items():
        mean = number(figure_of(one, Figure(name, name)))
        having, scored = count_with(one, name)
        column[contender] = f"{mean} (of {having})" if 0 < having < scored else mean
    return column


def _with_intervals(
    found: Mapping[Contender, Interval | None], *, is_share: bool
) -> dict[Contender, str]:
    words = Words(is_share=is_share)
    return {contender: words.interval(interval) for contender, interval in found.items()}
