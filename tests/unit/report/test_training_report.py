"""The report on a training run: what is in it, and that it stays small."""

import random
from dataclasses import replace

import pytest
from matplotlib.figure import Figure
from matplotlib.patches import StepPatch

from precis.environments.show import show_conversation
from precis.environments.summaries.prompt import scenario_of
from precis.environments.summaries.show import show_summary
from precis.records.documents import Document, Question
from precis.records.ledger import Ledger
from precis.records.nouns import Nouns
from precis.records.rollout import Call, Rollout, Scenario, Score, Unscored
from precis.records.spend import Spend
from precis.report.charts import LIGHT
from precis.report.curve import curve_of, phases, trends
from precis.report.training_report import (
    LatestSamples,
    TrainingView,
    best_and_worst,
    most_changed,
    totals,
    training_report,
)
from precis.runs.outlook import RunPlan, outlook
from precis.runs.shortcomings import shortcoming
from tests.support.ledgers import EMPTY, record, variance, warm_start
from tests.support.ledgers import validation as validated
from tests.support.reports import document, rendered, verdict
from tests.support.rollouts import call, calling, score_of
from tests.support.validations import correct, validation

pytestmark = pytest.mark.usefixtures("undrawn")


def ledger_of(steps: int) -> Ledger:
    """A run whose every figure moves, validated before every tenth step."""
    rng = random.Random(1)
    ledger = EMPTY
    for step in range(steps):
        words, dropped = {"words": rng.uniform(200, 350)}, {"zero_variance": rng.randrange(3)}
        made = record(step, rng.random(), 0.012, metrics=words, groups_dropped=dropped)
        ledger = ledger.advance(made)
    for step in range(0, steps + 1, 10):
        ledger = ledger.add_validation(validated(step))
    return ledger


def judged(index: int, text: str, correct: int = 2) -> Rollout:
    of = document(index)
    return Rollout(scenario_of(of), 0, (call(text),), score_of(verdict(of, correct)))


SEEN = (
    LatestSamples(
        rollouts=(judged(0, "The worst.", 0), judged(1, "Middling."), judged(2, "The best.", 4))
    )
    .add_validation(0, [judged(3, "one two three"), judged(4, "same words here")])
    .add_validation(10, [judged(3, "four five three"), judged(4, "same words here")])
)


def view(steps: int, seen: LatestSamples = SEEN) -> TrainingView:
    plan = RunPlan(max(steps, 1), 1)
    return TrainingView(ledger_of(steps), plan, seen, {}, "", show_summary, Nouns("summary"))


def test_it_shows_three_pictures_the_totals_and_links() -> None:
    links = {"store": "/a_path/*here*", "wandb": "https://wandb.ai/x/y"}
    html = rendered(training_report(replace(view(25), links=links)))
    assert html.count('<img src="data:image/png;base64,') == 3
    assert '<a href="https://wandb.ai/x/y">' in html and "/a_path/*here*" in html
    for shown in ("50.0% (40.0% to 60.0%)", "zero_variance", "$0.30", " s of training left"):
        assert shown in html


def test_the_progress_line_says_how_far_it_is_and_who_answers_nobody() -> None:
    line = view(10).progress
    assert line.startswith("step 10 of 10, reward 0.")
    assert line.endswith("held-out accuracy 50.0% after step 10, $0.12")
    silent = replace(view(10), silences=("The judge has answered no request for 12 s: Busy.",))
    assert silent.progress == f"{line}. The judge has answered no request for 12 s: Busy."


def test_the_best_the_worst_and_the_most_changed_summary_can_be_read_with_their_verdicts() -> None:
    html = rendered(training_report(view(10)))
    order = ["Best summary", "The best.", "Worst summary", "The worst.", "Most changed", "After"]
    places = [html.index(each) for each in order]
    assert places == sorted(places)
    for text in ("4 of 4 right", "0 of 4 right", "one two three", "four five three", "<td>✗</td>"):
        assert text in html
    assert "same words here" not in html


def test_games_are_shown_by_turns_with_their_scores_and_the_most_changed_by_its_moves() -> None:
    def played(name: str, *moves: str, score: Score | Unscored) -> Rollout:
        calls: list[Call] = []
        for move in moves:
            before = calls[-1] if calls else None
            messages = (*before.messages, before.message) if before else ()
            calls.append(Call(messages, {"message": calling("play", move, move)}))
        return Rollout(Scenario(name), 0, tuple(calls), score)

    won, lost = Score(1.0, True, {"turns": 2}), Unscored("timeout", "It took 300 s.")
    seen = (
        LatestSamples((played("b1", "7", "8", score=won), played("b2", "9", score=Score(0.0))))
        .add_validation(0, [played("h1", "1", "2", score=won), played("h2", "3", score=won)])
        .add_validation(9, [played("h1", "1", "2", score=won), played("h2", "4", score=lost)])
    )
    one = TrainingView(ledger_of(9), RunPlan(9, 0), seen, {}, "", show_conversation, Nouns("game"))
    html = rendered(training_report(one))
    order = ["Best game of the last step: b1", "Turn 1", "play(7)", "Turn 2", "play(8)"]
    order += ["Reward 1, a success; turns 2", "Worst game", "play(9)", "Reward 0"]
    order += ["Most changed game: h2", "play(3)", "play(4)", "Not scored (timeout): It took 300 s."]
    places = [html.index(each) for each in order]
    assert places == sorted(places)


def test_a_metric_below_zero_is_drawn() -> None:
    steps = [one.model_copy(update={"metrics": {"margin": -3.0}}) for one in ledger_of(3).steps]
    figure = Figure()
    trends(steps).draw(figure, LIGHT)
    low, high = figure.axes[1].get_ylim()
    assert low <= -3 < high


def test_it_warns_as_soon_as_reward_and_second_judge_part_ways() -> None:
    validations = [
        validation(0, correct(0.4), correct(0.4)),
        validation(10, correct(0.7), correct(0.4, shift=2)),
    ]
    ledger = ledger_of(15).model_copy(update={"validations": tuple(validations)})
    assert "judge diverge" in rendered(training_report(TrainingView(ledger, RunPlan(20, 1), SEEN)))
    assert "judge diverge" in (shortcoming(ledger) or "")
    assert list(curve_of(ledger).second) == [0, 10]


def test_a_run_without_steps_has_a_report() -> None:
    html = rendered(training_report(view(0, LatestSamples())))
    assert html.count("<img ") == 1
    assert "step 0 of 1" in html
    assert "known after the first step" in html


def test_questions_too_long_for_the_artifact_are_left_out() -> None:
    asked = tuple(Question(f"q{at}", "*" * 5000, "gold", True) for at in range(20))
    of = Document("d0", "topic", "Text.", asked)
    huge = Rollout(scenario_of(of), 0, (call("short"),), score_of(verdict(of, 1)))
    report = training_report(view(3, LatestSamples(rollouts=(huge, huge))))
    assert len(report.encode()) < 500_000
    assert "Best summary" not in report
    # Of one scored rollout or one validation nothing is best or changed.
    unscored = Rollout(scenario_of(document(0)), 0, (call("x"),), Unscored("timeout", ""))
    assert best_and_worst([unscored, judged(0, "a")]) is None
    assert most_changed(LatestSamples().add_validation(0, [judged(0, "a")])) is None


def test_the_time_of_a_step_is_drawn_at_its_step_in_a_rebuilt_ledger_too() -> None:
    records = [record(step, seconds={"train": 4.0}) for step in (4, 6)]
    rebuilt = Ledger(
        model="m", config="c", corpus="", next_step=7, steps=tuple(records), rebuilt_at=7
    )
    figure = Figure()
    phases(rebuilt).draw(figure, LIGHT)
    (drawn,) = figure.axes[0].patches
    assert isinstance(drawn, StepPatch)
    seconds, edges, _ = drawn.get_data()
    assert list(edges) == [3.5, 4.5, 5.5, 6.5]
    assert list(seconds) == [4.0, 0.0, 4.0]
    assert "train  4 s" in figure.legends[0].get_texts()[0].get_text()


def shown(ledger: Ledger, steps: int = 3) -> str:
    return totals(ledger, outlook(ledger, RunPlan(steps)))


def test_a_validation_says_how_many_scenarios_it_lacks() -> None:
    whole = validated(0)
    assert "Not scored" not in training_report(
        TrainingView(EMPTY.add_validation(whole), RunPlan(1))
    )
    partial = validated(1).model_copy(update={"unscored": {"timeout": 2, "refused": 1}})
    ledger = EMPTY.add_validation(whole).add_validation(partial)
    report = training_report(TrainingView(ledger, RunPlan(1)))
    assert "| Step | Accuracy | Words | Not scored |" in report
    assert "| 1 | 50.0% (40.0% to 60.0%) | 300 | 1 refused, 2 timeout |" in report


def test_causes_and_dollars_are_summed_and_foretold_with_what_the_machine_costs() -> None:
    ledger = EMPTY
    for step in range(3):
        taken = record(
            step,
            groups_dropped={"zero_variance": 2},
            unscored={"timeout": 1, "odd|<cause>": 1},
            judge=Spend(calls=10, cached=1, prompt_tokens=1000, usd=0.5),
            machine_usd=1.5,
            machine_saved_usd=2.25,
        )
        ledger = ledger.advance(taken)
    text = shown(ledger, 10)
    assert "| Groups dropped | 6 zero_variance |" in text
    assert "| Rollouts not scored | 3 odd&#124;&#60;cause&#62;, 3 timeout |" in text
    assert "| Judge, for the steps alone | 30 calls and 3 from the cache, 3,000 tokens" in text
    assert "| $6.00, $4.50 of it for the training, where spot saved $6.75 |" in text
    assert "without the benchmark | about $20.00" in text and "Warm start" not in text
    assert "| $0.50 |" in shown(EMPTY.advance(record(0, usd=0.5))), "of the judge alone"
    unpriced = record(0, judge=Spend(calls=10, unpriced=10))
    assert "unknown price" in shown(EMPTY.advance(unpriced)), "and that is no zero"


def test_a_warm_start_is_told_with_what_became_of_the_groups() -> None:
    left_out = {"nothing_earned": 2}
    made = warm_start(source="best_of_n", demonstrations=38, left_out=left_out, reward=0.5)
    ledger = EMPTY.add_variance(variance(0, 7))
    assert "| Warm start | 7 of 20 groups with rewards that differ before it |" in shown(ledger)
    ledger = ledger.advance(record(0, warm_start=made)).add_variance(variance(1, 18))
    (row,) = [line for line in shown(ledger).splitlines() if "Warm start" in line]
    assert "38 demonstrations imitated (best_of_n) with a mean reward of 0.5" in row
    assert "left out 2 nothing_earned" in row
    assert "18 of 20 groups with rewards that differ after it" in row
    unscored = variance(1, 18).model_copy(update={"dropped": {"too_few_scored": 2}})
    others = "differ after it (the others: 2 too_few_scored)"
    assert others in shown(ledger.add_variance(unscored)), "which may differ as well"
