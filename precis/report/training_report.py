"""The report of a running training: a page of Markdown, small at any number of steps, with the
rollouts that are worth reading."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from precis.markdown import escape, quote, table
from precis.records.ledger import Ledger
from precis.records.nouns import Nouns
from precis.records.rollout import Rollout, Unscored, content_text
from precis.records.spend import Spend
from precis.report import wording
from precis.report.curve import curve_of, learning_curve, phases, trends
from precis.runs.outlook import Projection, RunPlan, in_words, outlook
from precis.runs.shortcomings import shortcoming, stopped
from precis.runs.validations import parted
from precis.text import write_dollars

_VALIDATIONS_SHOWN = 10
_BYTES_MAX = 450_000
"""Prefect's pages stay fast up to half a megabyte."""


@dataclass(frozen=True)
class Validated:
    """The held-out rollouts of one adapter."""

    step: int
    rollouts: tuple[Rollout, ...]


@dataclass(frozen=True)
class LatestSamples:
    """The newest rollouts of a run, for its report.

    Attributes:
        rollouts: the last step's.
        first: the run's first validation.
        last: this process's last validation.
    """

    rollouts: tuple[Rollout, ...] = ()
    first: Validated | None = None
    last: Validated | None = None

    def add_validation(self, step: int, rollouts: Iterable[Rollout]) -> Self:
        """Return the samples with the validation of adapter `step` added."""
        new = Validated(step, tuple(rollouts))
        return replace(self, first=self.first or new, last=new)


@dataclass(frozen=True)
class TrainingView:
    """The data of a run's report, which it determines.

    Attributes:
        links: further pages, by name: an address, a path or a command.
        caveat: a warning that applies to all its figures, or "".
        show: shows a rollout as Markdown.
        silences: sentences on servers that do not answer at present.
    """

    ledger: Ledger
    plan: RunPlan
    seen: LatestSamples = field(default_factory=LatestSamples)
    links: Mapping[str, str] = field(default_factory=dict)
    caveat: str = ""
    show: Callable[[Rollout], str] = field(default=lambda rollout: quote(rollout.text))
    nouns: Nouns = field(default_factory=Nouns)
    silences: Sequence[str] = ()

    @property
    def progress(self) -> str:
        """The progress of the run, in a line: `step 12 of 30, reward 0.54, held-out accuracy …`."""
        ledger = self.ledger
        parts = [f"step {ledger.next_step} of {self.plan.steps}"]
        if ledger.steps:
            parts.append(f"reward {ledger.steps[-1].reward:.2f}")
        if ledger.validations:
            last = ledger.validations[-1]
            parts.append(f"held-out {last.measure} {last.score} after step {last.step}")
        if ledger.usd:
            parts.append(write_dollars(ledger.usd))
        line = ", ".join(parts)
        return f"{line}. {' '.join(self.silences)}" if self.silences else line


def training_report(view: TrainingView) -> str:
    """Return learning curve, strips, totals with forecast, the last validations, and rollouts to
    read.

    Parts that do not fit are left out: a corpus may have questions of any length.
    """
    room = _BYTES_MAX
    fitting = []
    for part in _parts(view):
        if len(part.encode()) < room:
            room -= len(part.encode()) + 2
            fitting.append(part)
    return "\n\n".join(fitting) + "\n"


def _parts(view: TrainingView) -> Iterator[str]:
    ledger = view.ledger
    ahead = outlook(ledger, view.plan)
    left = f", {in_words(ahead.seconds_left)} of training left" if ahead.seconds_left else ""
    yield f"**{escape(view.progress)}**{left}"
    if view.caveat:
        yield escape(view.caveat)
    why = stopped(ledger)
    if why:
        yield escape(why)
    # The last step is committed, and its adapter validated.
    validated = [one.step for one in ledger.validations]
    is_done = ledger.next_step >= view.plan.steps and view.plan.steps in validated
    sentence = shortcoming(ledger) if is_done else parted(ledger.validations)
    if sentence:
        yield f"⚠️ **{escape(sentence)}**"
    last = ledger.validations[-1] if ledger.validations else None
    curve = learning_curve(
        curve_of(ledger),
        title=f"Held-out {last.measure if last else 'score'}, by training step",
        subtitle=view.nouns.subtitle,
        is_share=last is None or last.score.is_share,
    )
    yield curve.markdown()
    if ledger.steps:
        yield trends(ledger.steps).markdown()
        yield phases(ledger).markdown()
    yield totals(ledger, ahead)
    if ledger.validations:
        yield f"### The last validations\n\n{_last_validations(ledger)}"
    both = best_and_worst(view.seen.rollouts)
    for name, one in zip(("Best", "Worst"), both or (), strict=False):
        title = f"{name} {view.nouns.rollout} of the last step: {one.scenario.id}"
        yield f"### {escape(title)}\n\n{_rollout(view, one)}"
    first, newest = view.seen.first, view.seen.last
    change = most_changed(view.seen)
    if change and first and newest:
        before, after = change
        yield f"### {escape(f'Most changed {view.nouns.rollout}: {after.scenario.id}')}"
        yield f"After step {first.step}:\n\n{_rollout(view, before)}"
        yield f"After step {newest.step}:\n\n{_rollout(view, after)}"
    if view.links:
        lines = ["### Where else to look", ""]
        for name, at in view.links.items():
            link = f"[{escape(at)}](<{at}>)" if at.startswith("https://") else escape(at)
            lines.append(f"- {escape(name)}: {link}")
        yield "\n".join(lines)


def best_and_worst(rollouts: Sequence[Rollout]) -> tuple[Rollout, Rollout] | None:
    """Return the best and the worst rollout by score; None with fewer than two scored."""
    scored = [one for one in rollouts if one.reward is not None]
    if len(scored) < 2:
        return None
    scored.sort(key=lambda one: one.reward or 0.0)
    return scored[-1], scored[0]


def most_changed(seen: LatestSamples) -> tuple[Rollout, Rollout] | None:
    """Return the first and the last rollout of the held-out scenario whose two share the fewest
    words; None without two validations."""
    if seen.first is None or seen.last is None or seen.first.step == seen.last.step:
        return None
    before = {one.scenario.id: one for one in seen.first.rollouts if said(one)}
    pairs = []
    for new in seen.last.rollouts:
        if said(new) and new.scenario.id in before:
            pairs.append((before[new.scenario.id], new))
    return min(pairs, key=lambda pair: common_words(*map(said, pair)), default=None)


def said(rollout: Rollout) -> str:
    """Return a policy's texts and tool calls in the conversation of its last call."""
    if not rollout.calls:
        return ""
    words = []
    last = rollout.calls[-1]
    for message in (*last.messages, last.message):
        if message["role"] == "assistant":
            words.append(content_text(message.get("content")))
            calls = message.get("tool_calls") or ()
            words += [str(call.get("function") or call.get("custom")) for call in calls]
    return "\n".join(words).strip()


def common_words(first: str, second: str) -> float:
    """Return the share of words that two texts have in common, 0 to 1, in any order."""
    one = Counter(first.lower().split())
    other = Counter(second.lower().split())
    both = one.total() + other.total()
    return 2 * (one & other).total() / both if both else 1.0


def _last_validations(ledger: Ledger) -> str:
    """Tabulate the last validations, which would show a policy that pleases only its judge."""
    shown = ledger.validations[-_VALIDATIONS_SHOWN:]
    names: dict[str, None] = {}
    for one in shown:
        names[one.measure] = None
        for name, found in one.metrics.items():
            if found.value:
                names[name] = None
    unscored = ["Not scored"] if any(one.unscored for one in shown) else []
    rows = []
    for one in shown:
        row = [str(one.step)]
        for name in names:
            measured = one.metrics.get(name)
            row.append(measured.with_interval if measured else "")
        rows.append([*row, wording.causes(one.unscored)] if unscored else row)
    return table(["Step", *map(wording.heading, names), *unscored], rows)


def _rollout(view: TrainingView, rollout: Rollout) -> str:
    """Return a rollout in the environment's format, with its score."""
    score = rollout.score
    if isinstance(score, Unscored):
        earned = f"Not scored ({score.cause}): {score.detail}"
    else:
        success = {True: ", a success", False: ", no success", None: ""}[score.success]
        metrics = [f"{name} {wording.number(value)}" for name, value in score.metrics.items()]
        told = f"; {', '.join(metrics)}" if metrics else ""
        earned = f"Reward {wording.number(score.reward)}{success}{told}"
    return f"{view.show(rollout)}\n\n{escape(earned)}"


def totals(ledger: Ledger, ahead: Projection) -> str:
    """Return Markdown on rollouts and groups left out by cause, the judge's calls, dollars, and the
    forecast."""
    spend = Spend()
    trained = added = 0
    dropped: Counter[str] = Counter()
    unscored: Counter[str] = Counter()
    for step in ledger.steps:
        spend += step.judge
        trained += step.groups_trained
        added += step.groups_added
        dropped.update(step.groups_dropped)
        unscored.update(step.unscored)
    spent = wording.total(ledger.usd, is_lower_bound=ledger.is_lower_bound)
    if ledger.machine_usd:
        spent += f", ${ledger.machine_usd:,.2f} of it for the training"
        saved = sum(step.machine_saved_usd for step in ledger.steps)
        spent += f", where spot saved ${saved:,.2f}" if saved else ""
    forecast = "known after the first step"
    if ahead.usd_at_end is not None:
        forecast = "about " + wording.total(ahead.usd_at_end, is_lower_bound=ledger.is_lower_bound)
    rows = {
        "Groups trained on": f"{trained:,}",
        "Groups dropped": wording.causes(dropped) or "none",
        "Groups of further scenarios": f"{added:,}",
        "Rollouts not scored": wording.causes(unscored) or "none",
        "Judge, for the steps alone": f"{spend.calls:,} calls and {spend.cached:,} from the cache, "
        f"{spend.prompt_tokens + spend.completion_tokens:,} tokens",
        "Spent, validation included": spent,
        "At the end, at this rate, without the benchmark": forecast,
    }
    if ledger.variances:
        rows = {"Warm start": wording.warm_start(ledger), **rows}
    return table(["So far", ""], list(rows.items()))
