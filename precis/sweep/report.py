"""A sweep's ranking as markdown."""

from collections.abc import Sequence
from itertools import chain
from statistics import fmean

from precis.errors import UnusableRun
from precis.markdown import escape, table
from precis.report.wording import Words, spent
from precis.store import Store
from precis.sweep.ranking import SEEDS_MIN, SettingsResult
from precis.sweep.trials import describe


def store_report(store: Store, name: str, page: str) -> str:
    """Put a sweep's report into the store; return its address. No model's name begins like its
    folder's."""
    key = f"_sweeps/{name}/report.md"
    store.put(key, page.encode())
    return f"{store.url}/{key}"


def refuse_unmeasured(name: str, ranked: Sequence[SettingsResult]) -> None:
    """Raise UnusableRun if no trial was measured."""
    if ranked[0].accuracy is None:
        failure = ranked[0].trials[0].failure or "nothing that it said"
        raise UnusableRun(
            f"No trial of the sweep {name!r} was measured. The first failed with: {failure}"
        )


def sweep_report(ranked: Sequence[SettingsResult]) -> str:
    """Return the ranking: a sentence, a table, and what failed."""
    words = _words(ranked)
    trials = list(chain.from_iterable(one.trials for one in ranked))
    failures = [trial for trial in trials if trial.failure]
    head = [
        "Rank",
        "Settings",
        f"{words.measure.capitalize()} (95 % interval over seeds)",
        "Behind the best, in points" if words.is_share else "Behind the best",
        "Seeds",
        "Cost",
    ]
    rows = [_row(rank, one, words) for rank, one in enumerate(ranked, 1)]
    parts = [escape(verdict(ranked)), table(head, rows)]
    if failures:
        lines = ["Runs that did not end well:", ""]
        for failed in failures:
            why = failed.failure
            if failed.accuracy is not None:
                why += f" Ranked by its newest validation; it has come to step {failed.steps}."
            lines.append(f"- {escape(failed.trial.model)}: {escape(why)}")
        parts.append("\n".join(lines))
    example = ranked[0].trials[0].trial.model
    parts.append(
        "The intervals are not corrected for the number of settings. Each run is a model of its "
        f"own: `precis runs show {example}` has one of them in full."
    )
    return "\n\n".join(parts) + "\n"


def verdict(ranked: Sequence[SettingsResult]) -> str:
    """Return a sentence on the best settings, and on whether their lead may be chance."""
    best = ranked[0]
    if best.accuracy is None:
        return "No run was measured."
    words = _words(ranked)
    score = f"{words.measure} {words.figure(best.accuracy.mean)}".removeprefix("accuracy ")
    found = f"Best: {describe(best.changes)}, {score} on the held-out scenarios"
    others = ranked[1:]
    if not others:
        return f"{found}. It was compared with no other settings."
    seeds = len(best.trials)
    alike = unmeasured = 0
    for one in others:
        seeds = min(seeds, len(one.trials))
        unmeasured += one.accuracy is None
        alike += one.accuracy is not None and not one.is_told_apart
    if seeds < SEEDS_MIN:
        return (
            f"{found}. With fewer than {SEEDS_MIN} seeds nobody can say what of that is chance: "
            "name more."
        )
    if not alike and not unmeasured:
        return f"{found}, ahead of all others by more than chance."
    said = []
    if alike:
        said.append(f"{alike} of {len(others)} others are not told apart from it.")
    if unmeasured:
        said.append(f"{unmeasured} of {len(others)} others were not measured.")
    return " ".join([f"{found}.", *said])


def _words(ranked: Sequence[SettingsResult]) -> Words:
    for one in ranked:
        for trial in one.trials:
            if trial.accuracy is not None:
                return Words(measure=trial.measure, is_share=trial.is_share)
    return Words()


def _row(rank: int, one: SettingsResult, words: Words) -> list[str]:
    usd = sum(trial.usd for trial in one.trials)
    measured = sum(trial.accuracy is not None for trial in one.trials)
    accuracy = "not measured"
    if one.accuracy and measured >= SEEDS_MIN:
        accuracy = words.interval(one.accuracy)
    elif one.accuracy:
        accuracy = words.figure(one.accuracy.mean)
    return [
        str(rank) if one.accuracy else "",
        describe(one.changes),
        accuracy,
        _points(one, words),
        f"{measured} of {len(one.trials)}",
        f"${spent(usd, is_lower_bound=any(trial.is_lower_bound for trial in one.trials))}",
    ]


def _points(one: SettingsResult, words: Words) -> str:
    """Return how far behind the best they are, with an interval if there are seeds enough."""

    def written(gap: float) -> str:
        return f"{100 * gap:.1f}" if words.is_share else f"{gap:.3g}"

    behind = one.behind
    if behind is not None:
        return f"{written(behind.mean)} ({written(behind.low)} to {written(behind.high)})"
    return written(fmean(one.gaps)) if one.gaps else ""
