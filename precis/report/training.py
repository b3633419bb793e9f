"""The report on a training run while it goes: a page of markdown, small at any number of steps."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from precis.records.ledger import Ledger, Validation
from precis.report import wording
from precis.report.curve import curve_of, learning_curve
from precis.report.examples import LatestSamples, SummaryChange, best_and_worst, most_changed
from precis.report.markdown import escape, picture, table
from precis.report.phases import phases
from precis.report.reading import about, example, questions, quote
from precis.report.totals import totals
from precis.report.trends import trends
from precis.run.outlook import Projection, RunPlan, in_words, outlook
from precis.run.shortcomings import shortcoming

_STEPS_SHOWN = 10
_BYTES_MAX = 450_000
"""Prefect's pages stay quick up to half a megabyte."""


@dataclass(frozen=True)
class TrainingView:
    """All that the report on a run is made of; the same view gives the same report.

    Attributes:
        links: where else to look, by name: an address, or a path or command as it is.
    """

    ledger: Ledger
    plan: RunPlan
    seen: LatestSamples = field(default_factory=LatestSamples)
    links: Mapping[str, str] = field(default_factory=dict)


def training_report(view: TrainingView) -> str:
    """Learning curve, strips, totals with forecast, the last steps, and summaries to read."""
    return "\n\n".join(_fitting(_parts(view))) + "\n"


def progress_line(view: TrainingView) -> str:
    """How far the run is, in a line: `step 12 of 30, reward 0.54, held-out accuracy …`."""
    ledger = view.ledger
    parts = [f"step {ledger.next_step} of {view.plan.steps}"]
    if ledger.steps:
        parts.append(f"reward {ledger.steps[-1].reward:.2f}")
    if ledger.validations:
        last = ledger.validations[-1]
        parts.append(f"held-out accuracy {last.accuracy:.1%} after step {last.step}")
    if ledger.usd:
        parts.append(f"${ledger.usd:,.2f}")
    return ", ".join(parts)


def _fitting(parts: Iterable[str]) -> Iterator[str]:
    """Leave out what has no room any more: a corpus may hold questions of any length."""
    room = _BYTES_MAX
    for part in parts:
        if len(part.encode()) < room:
            room -= len(part.encode()) + 2
            yield part


def _parts(view: TrainingView) -> Iterator[str]:
    ledger = view.ledger
    ahead = outlook(ledger, view.plan)
    yield f"**{escape(progress_line(view))}**" + _time_left(ahead)
    if _is_done(view) and (sentence := shortcoming(ledger)):
        yield f"⚠️ **{escape(sentence)}**"
    yield picture(learning_curve(curve_of(ledger)))
    if ledger.steps:
        yield picture(trends(ledger.steps))
        yield picture(phases(_seconds(ledger)))
    yield totals(ledger, ahead)
    yield _last_steps(ledger)
    both = best_and_worst(view.seen.rollouts)
    if both:
        yield example("Best summary of the last step", both[0])
        yield example("Worst summary of the last step", both[1])
    change = most_changed(view.seen)
    if change:
        yield _change(change)
    if view.links:
        lines = [f"- {escape(name)}: {_link(at)}" for name, at in view.links.items()]
        yield "\n".join(["### Where else to look", "", *lines])


def _is_done(view: TrainingView) -> bool:
    """Whether the last step is committed, and its adapter validated."""
    validated = [one.step for one in view.ledger.validations]
    return view.ledger.next_step >= view.plan.steps and view.plan.steps in validated


def _time_left(ahead: Projection) -> str:
    return f", {in_words(ahead.seconds_left)} left" if ahead.seconds_left else ""


def _seconds(ledger: Ledger) -> Sequence[Mapping[str, float]]:
    """By step; a validation counts to the step that made its adapter."""
    validations = {one.step - 1: one.seconds for one in ledger.validations if one.step}
    return [
        {**one.seconds, **({"validate": validations[one.step]} if one.step in validations else {})}
        for one in ledger.steps
    ]


def _last_steps(ledger: Ledger) -> str:
    head = ["Step", "Reward", "Spread", "Words", "Held-out accuracy before it", "Seconds", "Judge"]
    accuracies = {one.step: _accuracy(one) for one in ledger.validations}
    rows = [
        [
            str(one.step),
            wording.number(one.reward),
            wording.number(one.reward_std),
            f"{one.words:.0f}",
            accuracies.get(one.step, ""),
            wording.number(sum(one.seconds.values())),
            f"${one.judge.usd:,.4f}",
        ]
        for one in ledger.steps[-_STEPS_SHOWN:]
    ]
    return table(head, rows)


def _accuracy(one: Validation) -> str:
    return f"{one.accuracy:.1%} ({one.low:.1%} to {one.high:.1%})"


def _change(change: SummaryChange) -> str:
    parts = [
        "### Most changed summary",
        f"After step {change.step}: {about(change.before)}",
        quote(change.before),
        questions(change.before),
        f"After step {change.later_step}: {about(change.after)}",
        quote(change.after),
        questions(change.after),
    ]
    return "\n\n".join(parts)


def _link(at: str) -> str:
    return f"[{escape(at)}](<{at}>)" if at.startswith("https://") else escape(at)
