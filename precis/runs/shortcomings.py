"""Sentences on what speaks against a finished run."""

from collections import Counter
from collections.abc import Sequence
from shlex import quote
from statistics import fmean

from precis.records.ledger import Ledger, StepRecord, Validation
from precis.runs.validations import gain, parted
from precis.statistics.intervals import DOCUMENTS_MIN

_DROPPED_MAX = 0.5
_ENTROPY = "loss/entropy"
_ENTROPY_STEPS = 3
"""Steps whose mean is compared, since single ones differ by a third."""
_ENTROPY_LEFT_MIN = 1 / 3


def shortcoming(ledger: Ledger) -> str | None:
    """Return a sentence or two on what a run's figures show against it; None without any.

    A run has learned if its last validation is above its first by more than chance, by the 95 %
    interval of the difference on the same scenarios; without one, since only a metric's mean is
    kept or the weights differ, by being above it.
    """
    found = [_learned_nothing(ledger), narrowed(ledger), parted(ledger.validations)]
    # Groups whose rollouts all earned the same, or were not scored, teach nothing.
    causes: Counter[str] = Counter()
    trained = 0
    for record in ledger.steps:
        causes.update(record.groups_dropped)
        trained += record.groups_trained
    dropped = causes.total()
    groups = dropped + trained
    if dropped > _DROPPED_MAX * groups:
        why = ", ".join(f"{cause} {count}" for cause, count in causes.most_common())
        found.append(f"{dropped} of {groups} groups were dropped and taught nothing ({why}).")
    return " ".join(filter(None, found)) or None


def stopped(ledger: Ledger) -> str | None:
    """Return a sentence on why a run has stopped early; None where it has not."""
    best = ledger.best
    if ledger.stopped_early is None or best is None:
        return None
    return (
        f"The run stopped early, at step {ledger.stopped_early}: its validations have gained "
        f"nothing beyond chance since step {ledger.validations[-1].last_gain}. Its model is the "
        f"best checkpoint, step {best.step} ({best.score}); raise patience, or set it to 0, to "
        "continue."
    )


def flattered(ledger: Ledger, step: int) -> str:
    """Return a sentence on a checkpoint that was chosen by its score on the held-out scenarios; ""
    for the newest of a run that did not stop early, which nothing has chosen."""
    best = ledger.best
    is_newest = step == ledger.next_step and ledger.stopped_early is None
    if is_newest or best is None or best.step != step or len(ledger.validations) < 2:
        return ""
    return (
        f"Step {step} was chosen as the best of {len(ledger.validations)} validations on these "
        "held-out scenarios: the best of several looks better than it is."
    )


def nothing_to_train(ledger: Ledger, steps: int, store: str) -> str | None:
    """Return a sentence for a run, of the store at this address, that has all its steps at its
    start; None where some are missing."""
    at = ledger.next_step
    if at < steps or ledger.stopped_early is not None:
        return None
    return (
        f"{ledger.model!r} has come to step {at} already, so nothing is trained: ask for more "
        "steps, train under another name (model), or go back with `precis runs restart "
        f"{ledger.model} --store {quote(store)} --step …`."
    )


def narrowed(ledger: Ledger) -> str | None:
    """Return a sentence if the policy's entropy has collapsed without a gain; None where not.

    Entropy falls in good runs too, as the policy becomes sure of what earns a reward: it counts
    against a run whose newest validation is not above that of its start by more than chance.
    """
    steps = [one for one in ledger.steps if one.warm_start is None and _ENTROPY in one.trainer]
    if len(steps) < 2 * _ENTROPY_STEPS or len(ledger.validations) < 2:
        return None
    first = steps[:_ENTROPY_STEPS]
    last = steps[-_ENTROPY_STEPS:]
    if _entropy(last) >= _ENTROPY_LEFT_MIN * _entropy(first):
        return None
    newest = ledger.validations[-1]
    start = next(
        (one for one in ledger.validations if one.step >= first[0].step), ledger.validations[0]
    )
    gained = gain(start, newest)
    if start is newest or gained is None or gained.low > 0:
        return None
    return (
        "The policy narrows, and no gain beyond chance shows so far: its entropy fell from "
        f"{_entropy(first):.2f} (steps {first[0].step} to {first[-1].step}) to "
        f"{_entropy(last):.2f}, and its held-out {_said(start)} at step {start.step} became "
        f"{newest.score} at step {newest.step}. Such a run may gain later; if the next validations "
        "show nothing, train on more data, or with a lower trainer.learning_rate."
    )


def _entropy(steps: Sequence[StepRecord]) -> float:
    return fmean(one.trainer[_ENTROPY] for one in steps)


def _learned_nothing(ledger: Ledger) -> str | None:
    if len(ledger.validations) < 2:
        return None
    first = ledger.validations[0]
    last = ledger.final or ledger.validations[-1]
    among = 1 if ledger.stopped_early is None else len(ledger.validations) - 1
    gained = gain(first, last, among)
    before, after = first.score.scores, last.score.scores
    compared = [one for one in zip(before, after, strict=False) if None not in one]
    is_undecided = bool(after) and len(compared) < DOCUMENTS_MIN
    if (gained.low if gained else last.score.value - first.score.value) > 0 and not is_undecided:
        return None
    if first.score.is_share and first.score.value == 1:
        return (
            f"There was nothing to learn: the model began with a held-out {_said(first)}. "
            "Give harder scenarios; of summaries, longer documents or a lower limit of words."
        )
    if is_undecided:
        return (
            f"The held-out {_said(first)} at step {first.step} and {last.score} at step "
            f"{last.step} can't tell whether the run has learned: fewer than {DOCUMENTS_MIN} "
            "scenarios have scores to compare. Hold out more."
        )
    return (
        f"The run has learned nothing that shows: the held-out {_said(first)} at step {first.step} "
        f"and {last.score} at step {last.step} differ by no more than chance allows. Train more "
        "steps, or on more data; with more scenarios held out, a smaller gain shows."
    )


def _said(one: Validation) -> str:
    return f"measure ({one.measure}) of {one.score}"
