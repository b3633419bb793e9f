"""A benchmark's data for the page and the artifact."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations, product

import polars as pl

from precis.records.nouns import COMPARED, PREFERRED, Figure
from precis.records.questions import QUESTIONS
from precis.records.results import ATTEMPTS
from precis.report.curve import Curve
from precis.report.nights import Comparison, NightlyAccuracy, nights_of
from precis.report.wording import Words, heading, name, number, of_standing, percent
from precis.statistics.intervals import DOCUMENTS_MIN, Difference, Interval, documents_needed
from precis.statistics.standings import (
    Contender,
    Pair,
    Standing,
    accuracy_of,
    align,
    count_with,
    differences,
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
class Benchmark:
    """The results of one run, summarised; each figure is computed once, when first read.

    Attributes:
        frame: all rows, in `precis.records.results.SCHEMA`.
        ceiling: the best that any policy could reach; None if unknown.
        comparison: with the benchmarks of earlier nights.
        questions: the questions about the rollouts, in `precis.records.questions.QUESTIONS`.
        attempts: the sampled attempts, in `precis.records.results.ATTEMPTS`.
    """

    frame: pl.DataFrame
    training: Curve = field(default_factory=Curve)
    ceiling: float | None = None
    comparison: Comparison = field(default_factory=Comparison)
    questions: pl.DataFrame = field(default_factory=QUESTIONS.to_frame)
    words: Words = field(default_factory=Words)
    attempts: pl.DataFrame = field(default_factory=ATTEMPTS.to_frame)

    @cached_property
    def standings(self) -> list[Standing]:
        """Every contender and checkpoint, best first."""
        return summarise(self.frame)

    @property
    def shown(self) -> list[Standing]:
        """The contenders, with only the first and the last of the checkpoints."""
        steps = [each.contender.step for each in self.standings if each.contender.step is not None]
        ends = {None, min(steps, default=None), max(steps, default=None)}
        return [each for each in self.standings if each.contender.step in ends]

    @cached_property
    def trained(self) -> Contender | None:
        """The last checkpoint; None without a trained model."""
        checkpoints = [one.contender for one in self.standings if one.contender.step is not None]
        return max(checkpoints, key=lambda each: each.step or 0, default=None)

    @property
    def ranked(self) -> dict[Contender, Interval]:
        """The accuracy of the shown contenders that are complete and scored, best first."""
        return select_ranked(self.shown)

    @property
    def curve(self) -> Curve:
        """The curve of the training; for checkpoints that the benchmark has ranked, its accuracy
        replaces the training's."""
        held_out = dict(self.training.held_out)
        for contender, accuracy in select_ranked(self.standings).items():
            if contender.step is not None:
                held_out[contender.step] = accuracy
        return replace(self.training, held_out=held_out)

    @cached_property
    def ahead(self) -> Mapping[Pair, Difference]:
        """The last checkpoint's lead over each other shown contender."""
        if self.trained is None:
            return {}
        others = [one.contender for one in self.shown if one.contender != self.trained]
        return differences(self.frame, product([self.trained], others))

    @cached_property
    def pairs(self) -> Mapping[Pair, Difference]:
        """Each ranked contender's lead over each lower one."""
        return differences(self.frame, combinations(self.ranked, 2))

    @cached_property
    def topics(self) -> Topics:
        """The accuracy of the shown contenders on the scored documents of each topic."""
        topics: dict[str, dict[Contender, Interval]] = {}
        for one in self.shown:
            rows = rows_by(self.frame, one.contender)
            for topic in rows["topic"].drop_nulls().replace("", None).drop_nulls().unique():
                accuracy = accuracy_of(scores_by_scenario(rows.filter(pl.col("topic") == topic)))
                if accuracy is not None:
                    topics.setdefault(topic, {})[one.contender] = accuracy
        return dict(sorted(topics.items()))

    @cached_property
    def documents_needed(self) -> int | None:
        """The documents needed to detect a difference of three points between the last checkpoint
        and the best of the others, or between the two best without a trained model; None without a
        comparison, with too few documents, and for a measure that is not a share."""
        two = sorted(self.ranked, key=lambda each: each != self.trained)[:2]
        if len(two) < 2 or not self.words.is_share:
            return None
        one, other, asked, _ = align(rows_by(self.frame, two[0]), rows_by(self.frame, two[1]))
        return documents_needed(one, other, asked)

    @cached_property
    def nights(self) -> list[NightlyAccuracy]:
        """The accuracy by night, tonight included; empty without earlier nights."""
        before = self.comparison.before
        return [] if before is None else nights_of(pl.concat([before, self.frame]))

    @cached_property
    def turns(self) -> Mapping[Contender, Interval]:
        """The turns of a success, by contender; empty if the environment names its own columns."""
        turns = {}
        if self.words.columns is None:
            for contender in select_ranked(self.standings):
                taken = turns_of_successes(rows_by(self.frame, contender))
                if taken is not None:
                    turns[contender] = taken
        return turns

    @cached_property
    def columns(self) -> Columns:
        """The table's further figures as text, by heading and contender: those of the environment,
        or an agent's defaults, the mean of each metric, the turns of a success, the reward, the
        successes, pass@k and the tokens."""
        words = self.words
        rows = {each.contender: rows_by(self.frame, each.contender) for each in self.standings}
        columns: dict[str, Mapping[Contender, str]] = {}
        if words.columns is not None:
            for figure in words.columns:
                write = percent if figure.is_share else number
                column = {each: write(figure_of(one, figure)) for each, one in rows.items()}
                columns[heading(figure.name)] = column
            return columns
        known = {words.measure, "success", "reward", PREFERRED, COMPARED}
        for metric in metric_names(self.frame):
            if metric not in known:
                columns[heading(metric)] = _means(metric, rows)
        in_turns = Words(is_share=False)
        turns = {each: in_turns.interval(turns_of_successes(one)) for each, one in rows.items()}
        shares = {each: Words().interval(success_of(one)) for each, one in rows.items()}
        has_successes = any(shares.values())
        if has_successes:
            columns["Turns of a success"] = turns
        if words.measure != words.nouns.reward and "reward" in metric_names(self.frame):
            columns[heading(words.nouns.reward)] = _means("reward", rows)
        if has_successes and words.measure != words.nouns.success:
            columns[heading(words.nouns.success)] = shares
        for k in sizes_up_to(self.attempts["attempt"].n_unique()):
            column = {}
            for each, one in rows.items():
                found, scenarios = pass_at(rows_by(self.attempts, each), k)
                column[each] = Words().interval(found)
                if found and scenarios < one["score"].count():
                    column[each] += f" (of {scenarios})"
            if any(column.values()):
                columns[f"pass@{k}"] = column
        for count in ("prompt_tokens", "completion_tokens"):
            means = {}
            for each, one in rows.items():
                counted = one.filter(pl.col("prompt_tokens") > 0)  # not every server counts them
                mean = counted[count].cast(pl.Float64).mean()
                means[each] = number(mean if isinstance(mean, float) else None)
            if any(means.values()):
                columns[f"{heading(count)} a {words.nouns.rollout}"] = means
        return columns

    def headlines(self) -> list[tuple[str, str, str]]:
        """Return the trained policy's results, and its lead over its start and over the others:
        the label, the value and a detail of each."""
        own = next((one for one in self.standings if one.contender == self.trained), None)
        if own is None or own.accuracy is None:
            return []
        words = self.words
        detail = f"{words.bounds(own.accuracy)}, {words.nouns.count(own.documents)}"
        headlines = [(of_standing(own), words.figure(own.accuracy.mean), detail)]
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
                gap = f"{words.gap(ahead.accuracy.mean)}{words.unit}"
                headlines.append((f"Compared with {name(other)}", gap, detail))
        if self.ceiling is not None:
            value, detail = "–", "the ceiling is 0"
            if self.ceiling and own.documents < DOCUMENTS_MIN:
                detail = f"too few {words.nouns.scenarios} to say ({own.documents})"
            elif self.ceiling:
                share = own.accuracy / self.ceiling
                value = percent(share.mean)
                best = words.figure(self.ceiling)
                detail = f"{Words().bounds(share)}, of the {best} that can be reached"
            headlines.append(("Share of the ceiling", value, detail))
        return headlines


def select_ranked(standings: Iterable[Standing]) -> dict[Contender, Interval]:
    """Return the accuracy of the complete and scored contenders, which charts compare, best
    first."""
    ranked = {}
    for each in standings:
        if each.complete and each.accuracy:
            ranked[each.contender] = each.accuracy
    return ranked


def _means(name: str, rows: Mapping[Contender, pl.DataFrame]) -> dict[Contender, str]:
    """Return the mean of a metric, with the number of rollouts if only some have it."""
    column = {}
    for contender, one in rows.items():
        mean = number(figure_of(one, Figure(name, name)))
        having, scored = count_with(one, name)
        column[contender] = f"{mean} (of {having})" if 0 < having < scored else mean
    return column
