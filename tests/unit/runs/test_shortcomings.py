"""What a run's figures say: that it learned nothing, or what it will still take."""

import re
from collections.abc import Sequence
from typing import Any

import pytest
from prefect.logging import disable_run_logger

from precis.config import TrainConfig
from precis.records.ledger import Ledger, Validation
from precis.report.training_report import TrainingView, training_report
from precis.runs.outlook import RunPlan, outlook
from precis.runs.shortcomings import (
    flattered,
    narrowed,
    nothing_to_train,
    shortcoming,
    stopped,
)
from tasks.states import completed
from tests.support import ledgers, validations

pytestmark = pytest.mark.usefixtures("undrawn")


def validation(step: int, accuracy: float) -> Validation:
    counts = (4,) * validations.DOCUMENTS if accuracy == 1 else validations.correct(accuracy)
    return validations.validation(step, counts)


def ledger(
    first: float, last: float | None, trained: int = 5, dropped: dict[str, int] | None = None
) -> Ledger:
    step = ledgers.record(0, groups_trained=trained, groups_dropped=dropped or {})
    run = ledgers.EMPTY.advance(step).add_validation(validation(0, first))
    return run if last is None else run.add_validation(validation(1, last))


def without_scores(first: float, last: float) -> Ledger:
    """The measure is a mean of a metric, of which no scenario's score is kept."""
    run = ledgers.EMPTY.advance(ledgers.record(0)).add_validation(ledgers.validation(0, first))
    return run.add_validation(ledgers.validation(1, last))


def differing(first: float, last: float, **changed: Any) -> Ledger:
    """The last validation's score differs from the first's in more than its value."""
    run = ledger(first, last)
    before, after = run.validations
    score = after.score.model_copy(update=changed)
    after = after.model_copy(update={"metrics": {"accuracy": score}})
    return run.model_copy(update={"validations": (before, after)})


FOUR = (*(3,) * 4, *(None,) * (validations.DOCUMENTS - 4))
"""Scores of all held-out scenarios, of which most have none."""
WEIGHTS = (8,) * validations.DOCUMENTS
"""Denominators of a ratio, where the rollouts decide them."""


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (ledger(0.3, 0.6), None),
        (ledger(0.3, None), None),
        (ledger(0.3, 0.3), r".* nothing that shows: the .* measure \(.+\) of 30.0%.* gain shows.$"),
        (differing(0.3, 0.6, scores=FOUR), ".* 30.0% at step 0 and 5.* can't tell .* fewer than 5"),
        (differing(1.0, 0.6, scores=FOUR), "There was nothing to learn"),
        (without_scores(0.3, 0.6), None),
        (differing(0.3, 0.6, weights=WEIGHTS), None),
        (without_scores(0.3, 0.3), "The run has learned nothing that shows: "),
        (ledger(1.0, 1.0), "There was nothing to learn: .*Give harder scenarios"),
        (ledger(0.3, 0.6, 1, {"no_variance": 4}), r"4 of 5 groups were dropped .*no_variance 4"),
    ],
)
def test_a_run_that_learned_nothing_says_why(run: Ledger, said: str | None) -> None:
    found = shortcoming(run)
    assert (found is None) if said is None else re.match(said, str(found))
    report = training_report(TrainingView(run, RunPlan(steps=1)))
    assert ("learned nothing" in report) == ("learned nothing" in str(found))
    assert "learned nothing" not in training_report(TrainingView(run, RunPlan(steps=9)))


@pytest.mark.parametrize("steps", [3, 30])
def test_a_run_that_is_asked_for_no_more_steps_than_it_has_says_so(steps: int) -> None:
    known = ledger(0.3, 0.6).model_copy(update={"next_step": 30})
    assert nothing_to_train(known, 31, "s3://b") is None
    said = nothing_to_train(known, steps, "s3://b/my runs")
    assert said is not None
    assert said.startswith("'m' has come to step 30 already, so nothing is trained: ask for more")
    assert (
        "under another name" in said
        and "`precis runs restart m --store 's3://b/my runs' --step …`" in said
    )
    has_stopped = known.model_copy(update={"stopped_early": 1})
    assert nothing_to_train(has_stopped, steps, "s3://b") is None
    with disable_run_logger():
        state: Any = completed(ledger(0.3, 0.3), "report", said)
    assert state.is_completed()
    assert state.message.startswith(said) and "learned nothing" in state.message
    assert completed(ledger(0.3, 0.6), "report") == "report"


def test_a_run_that_stopped_early_says_so_and_is_judged_by_its_best() -> None:
    known = ledger(0.3, 0.3)
    best = validation(1, 0.6)
    late = validation(2, 0.3).model_copy(update={"last_gain": 1})
    known = known.model_copy(
        update={"validations": (known.validations[0], best, late), "stopped_early": 2}
    )
    sentence = stopped(known)
    assert sentence and "at step 2" in sentence and "step 1 (55.0%)" in sentence
    assert shortcoming(known) is None
    assert sentence in training_report(TrainingView(known, RunPlan(steps=2)))
    chosen = "Step 1 was chosen as the best of 3 validations"
    assert flattered(known, 1).startswith(chosen)
    ended = known.advance(ledgers.record(1)).model_copy(update={"stopped_early": None})
    assert flattered(ended, 1).startswith(chosen), "as NAME@best"
    assert flattered(ended, 2) == "", "the newest, which nothing has chosen"


def test_the_best_of_many_validations_has_learned_only_by_a_wider_interval() -> None:
    start = [2] * validations.DOCUMENTS
    better = [3] * 10 + start[12:] + [1] * 2
    first, gained = validations.validation(0, start), validations.validation(1, better)
    rest = [validations.validation(step, start) for step in range(2, 9)]
    stopped_at_8 = {"validations": (first, gained, *rest), "stopped_early": 8}
    last_of_all = {"validations": (first, *rest, gained)}
    run = ledger(0.3, 0.3)
    assert "learned nothing" in (shortcoming(run.model_copy(update=stopped_at_8)) or "")
    assert shortcoming(run.model_copy(update=last_of_all)) is None


def narrowing(left: float, last: Sequence[int], warm: bool = True) -> Ledger:
    """The ledger of ten steps of reinforcement, whose entropy falls from 0.6 to what is left."""
    entropies = [0.6 - (0.6 - left) * place / 9 for place in range(10)]
    run = ledgers.EMPTY
    for step, entropy in enumerate(([9.0] if warm else []) + entropies):
        made = ledgers.warm_start() if warm and step == 0 else None
        taken = ledgers.record(step, trainer={"loss/entropy": entropy}, warm_start=made)
        run = run.advance(taken)
    start = validations.validation(1 if warm else 0, validations.correct(0.4))
    return run.add_validation(start).add_validation(validations.validation(run.next_step, last))


@pytest.mark.parametrize("warm", [True, False])
def test_a_run_that_narrows_and_gains_nothing_says_so(warm: bool) -> None:
    no_gain = validations.correct(0.4, shift=2)
    found = narrowed(narrowing(0.05, no_gain, warm))
    assert found and "from 0.54" in found and "to 0.11" in found
    assert found in (shortcoming(narrowing(0.05, no_gain, warm)) or "")
    assert narrowed(narrowing(0.05, validations.correct(0.7), warm)) is None
    assert narrowed(narrowing(0.3, no_gain, warm)) is None, "it stays wide"
    assert narrowed(ledger(0.3, 0.3)) is None, "it has no entropies"


def ledger_of(steps: int, usd: float = 0.5) -> Ledger:
    ledger = ledgers.EMPTY
    for step in range(steps):
        ledger = ledger.advance(ledgers.record(step, usd=usd))
    return ledger


def test_steps_and_validations_that_are_left_cost_what_the_newest_ones_did() -> None:
    ledger = (
        ledger_of(10)
        .add_validation(ledgers.validation(0), usd=1.0)
        .add_validation(ledgers.validation(10), usd=2.0)
    )
    ahead = outlook(ledger, RunPlan(30, validations_left=2))
    assert ahead.usd_at_end == 8.0 + 20 * 0.5 + 2 * 1.5
    assert ahead.seconds_left == 20 * 1.0 + 2 * 1.0
    taken_back = outlook(ledger.rewind(5), RunPlan(30, validations_left=2))
    assert taken_back.usd_at_end == 8.0 + 25 * 0.5 + 2 * 1.5, "the forgotten steps cost no more"
    ledger = ledger_of(10, usd=100.0)
    for step in range(10, 30):
        ledger = ledger.advance(ledgers.record(step, usd=0.5))
    assert outlook(ledger, RunPlan(40)).usd_at_end == 1000 + 10 + 5


def test_the_validations_that_are_left_follow_from_the_settings() -> None:
    config = TrainConfig(steps=25, validate_every=10)
    ledger = ledger_of(10).add_validation(ledgers.validation(0))
    assert RunPlan.of(config, ledger) == RunPlan(25, validations_left=3)
    assert RunPlan.of(config, ledger.add_validation(ledgers.validation(10))).validations_left == 2
