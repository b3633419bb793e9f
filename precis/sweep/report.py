"""A sweep's ranking as markdown, and its trials as lines for a program."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from itertools import chain

from precis.report.escaping import escape
from precis.statistics.intervals import Interval
from precis.sweep.ranking import SettingsResult, TrialResult
from precis.sweep.trials import describe

_HEAD = (
    "| Rank | Settings | Accuracy (95 % interval over seeds) | Behind the best, in points | Seeds "
    "| Words | Groups dropped | Cost |\n| --- | --- | --- | --- | --- | --- | --- | --- |"
)


def report_folder(name: str) -> str:
    """Where in a store a sweep's report lies. No model's name begins like that."""
    return f"_sweeps/{name}/"


def sweep_report(name: str, ranked: Sequence[SettingsResult]) -> str:
    """The ranking: a sentence, a table, and what failed."""
    rows = [_row(rank, one) for rank, one in enumerate(ranked, 1)]
    parts = [escape(verdict(ranked)), "\n".join([_HEAD, *rows])]
    failures = []
    for one in ranked:
        failures += [trial for trial in one.trials if trial.failure]
    if failures:
        lines = [f"- {escape(one.trial.model)}: {escape(_failure(one))}" for one in failures]
        parts.append("\n".join(["Runs that did not end well:", "", *lines]))
    example = ranked[0].trials[0].trial.model
    parts.append(
        f"Each run is a model of its own: `precis runs show {example}` has one of them in full. "
        f"`{report_folder(name)}trials.jsonl` has the figures."
    )
    return "\n\n".join(parts) + "\n"


def verdict(ranked: Sequence[SettingsResult]) -> str:
    """One sentence: which settings are best, and whether that may be chance."""
    best = ranked[0]
    if best.accuracy is None:
        return "No run was measured."
    found = f"Best: {describe(best.changes)}, {best.accuracy.mean:.1%} of the held-out questions"
    others = ranked[1:]
    if not others:
        return f"{found}. It was compared with no other settings."
    if any(len(one.trials) < 2 for one in ranked):
        return f"{found}. With one seed nobody can say what of that is chance: name more seeds."
    alike = sum(one.accuracy is not None and not one.is_told_apart for one in others)
    unmeasured = sum(one.accuracy is None for one in others)
    if not alike and not unmeasured:
        return f"{found}, ahead of all others by more than chance."
    said = []
    if alike:
        said.append(f"{alike} of {len(others)} others are not told apart from it.")
    if unmeasured:
        said.append(f"{unmeasured} of {len(others)} others were not measured.")
    return " ".join([f"{found}.", *said])


def trial_lines(ranked: Sequence[SettingsResult]) -> str:
    """One JSON object a line for each trial, in the order of the ranking."""
    trials = chain.from_iterable(one.trials for one in ranked)
    return "".join(f"{json.dumps(_fields(trial))}\n" for trial in trials)


def _fields(result: TrialResult) -> dict[str, object]:
    fields = asdict(result)
    trial = fields.pop("trial")
    return {**trial, **fields}


def _row(rank: int, one: SettingsResult) -> str:
    words = [trial.words for trial in one.trials if trial.words is not None]
    dropped = [trial.dropped for trial in one.trials if trial.dropped is not None]
    measured = sum(trial.accuracy is not None for trial in one.trials)
    cells = [
        str(rank) if one.accuracy else "",
        escape(describe(one.changes)),
        _accuracy(one, measured),
        _points(one.behind),
        f"{measured} of {len(one.trials)}",
        f"{sum(words) / len(words):.0f}" if words else "",
        f"{sum(dropped) / len(dropped):.0%}" if dropped else "",
        f"${sum(trial.usd for trial in one.trials):.2f}",
    ]
    return f"| {' | '.join(cells)} |"


def _failure(result: TrialResult) -> str:
    """Why a run failed, and what of it is ranked all the same."""
    if result.accuracy is None:
        return result.failure
    return f"{result.failure} Ranked by its newest validation; it has come to step {result.steps}."


def _accuracy(one: SettingsResult, measured: int) -> str:
    if one.accuracy is None:
        return "not measured"
    return f"{one.accuracy.mean:.1%}" if measured == 1 else str(one.accuracy)


def _points(behind: Interval | None) -> str:
    if behind is None:
        return ""
    return f"{100 * behind.mean:.1f} ({100 * behind.low:.1f} to {100 * behind.high:.1f})"
