"""What a sweep concludes from its trials."""

import pytest

from precis.records.ledger import Ledger, Metric
from precis.sweep.ranking import TrialResult, rank, result_of
from precis.sweep.report import sweep_report, verdict
from precis.sweep.trials import Trial
from tests.support.ledgers import EMPTY, measured, record


def results(rate: float, *accuracies: float | None) -> list[TrialResult]:
    """One trial a seed of a learning rate."""
    changes = {"trainer.learning_rate": rate}
    return [
        TrialResult(Trial(f"s-{rate}-seed{seed}", changes, seed), accuracy=accuracy)
        for seed, accuracy in enumerate(accuracies)
    ]


def test_of_few_seeds_or_gaps_alike_there_is_no_interval() -> None:
    ranked = rank([*results(0.1, 0.61, 0.70), *results(0.3, 0.55, 0.69)])
    page = sweep_report(ranked)
    assert "65.5%" in page and "| 3.5 |" in page
    assert " to " not in page
    assert not ranked[1].is_told_apart
    assert "With fewer than 3 seeds nobody can say" in verdict(ranked)
    # Nor of gaps that are all alike, as of few held-out scenarios they often are by chance.
    ranked = rank([*results(0.1, 0.3, 0.25, 0.3), *results(0.3, 0.1 + 0.2 + 0.25, 0.5, 0.55)])
    assert not ranked[1].is_told_apart
    assert "| 25.0 |" in sweep_report(ranked)
    assert verdict(ranked).endswith("1 of 1 others are not told apart from it.")


def test_an_interval_over_seeds_is_students_and_tells_settings_apart() -> None:
    ranked = rank([*results(0.1, 0.3, 0.2, 0.28), *results(0.3, 0.52, 0.5, 0.48)])
    best, other = ranked
    reach = 4.303 * 0.02 / 3**0.5  # the quantile for two degrees of freedom; the deviation
    assert best.accuracy is not None
    assert best.accuracy.ends == pytest.approx((0.5 - reach, 0.5 + reach))
    assert other.gaps == pytest.approx((0.22, 0.3, 0.2)) and other.is_told_apart
    assert verdict(ranked).endswith("ahead of all others by more than chance.")
    assert "not corrected for the number of settings" in sweep_report(ranked)


def test_settings_that_nothing_was_compared_with_are_ahead_of_nothing() -> None:
    """A sweep over seeds alone, or one all of whose other runs failed."""
    alone = verdict(rank(results(0.1, 0.5, 0.52, 0.48)))
    assert alone.endswith("It was compared with no other settings.")
    failed = verdict(rank([*results(0.1, 0.5, 0.52, 0.48), *results(0.3, None, None, None)]))
    assert failed.endswith("1 of 1 others were not measured.")
    some = [*results(0.1, 0.5, 0.6, 0.5), *results(0.2, 0.6, 0.5, 0.4)]
    mixed = [*some, *results(0.3, None, None, None)]
    sentence = "1 of 2 others are not told apart from it. 1 of 2 others were not measured."
    assert verdict(rank(mixed)).endswith(sentence)


def test_trials_that_failed_are_named_and_never_a_zero() -> None:
    failed = TrialResult(Trial("s-x-seed1", {"steps": 9}, 1), failure="BudgetReached: 3 < 4 $")
    ranked = rank([failed, *results(0.1, 0.5, 0.6)])
    page = sweep_report(ranked)
    assert ranked[-1].accuracy is None
    best = "| 1 | trainer.learning_rate=0.1 | 55.0%"
    for said in ("not measured", "s-x-seed1: BudgetReached: 3 &#60; 4 $", best):
        assert said in page
    # One that was cut short is ranked by the accuracy of fewer steps.
    trial = Trial("s-x-seed2", {"trainer.learning_rate": 0.1}, 2)
    short = TrialResult(trial, accuracy=0.4, steps=12, failure="BudgetReached: Spent.")
    page = sweep_report(rank([*results(0.1, 0.5), short]))
    assert "Spent. Ranked by its newest validation; it has come to step 12." in page


def test_settings_of_an_agent_are_ranked_by_its_own_measure() -> None:
    found = []
    for rate, rewards in ((0.1, (-1.0, -1.5, -1.2)), (0.3, (3.5, 4.0, 3.8))):
        for seed, reward in enumerate(rewards):
            score = Metric(value=reward, low=reward - 1, high=reward + 1)
            ledger = EMPTY.advance(record(0)).advance(record(1))
            ledger = ledger.add_validation(measured(2, {"reward": score}))
            trial = Trial(f"s-{rate}-seed{seed}", {"trainer.learning_rate": rate}, seed)
            found.append(result_of(trial, ledger))
    found.append(TrialResult(Trial("s-gone", {"trainer.learning_rate": 0.9}, 0), failure="Lost."))
    ranked = rank(found)
    page = sweep_report(ranked)
    assert "| Reward (95 % interval over seeds) | Behind the best |" in page
    assert "%" not in page.partition("| Reward (95 %")[2]
    assert "Best: trainer.learning_rate=0.3, reward 3.767" in verdict(ranked)
    behind = ranked[1].behind
    assert behind is not None and behind.mean > 1
    assert ranked[-1].accuracy is None, "a reward below zero is ahead of none"


def test_trials_without_a_success_at_their_first_validation_are_ranked_by_successes_too() -> None:
    """Their runs are measured by the reward; those of other seeds had a success by chance."""

    def ledger_of(seed: int) -> Ledger:
        rate = Metric(value=0.1 * seed, is_share=True)
        metrics = {"success rate": rate}
        if seed < 3:
            metrics = {"reward": Metric(value=7.0), **(metrics if seed else {})}
        return EMPTY.advance(record(0)).add_validation(measured(1, metrics))

    found = []
    for seed in range(4):
        found.append(result_of(Trial(f"s-seed{seed}", {}, seed), ledger_of(seed)))
    [ranked] = rank(found)
    assert [one.accuracy for one in ranked.trials] == [0.0, 0.1, 0.2, 0.30000000000000004]
    assert {(one.measure, one.is_share) for one in ranked.trials} == {("success rate", True)}
    assert "| Success rate (95 % interval over seeds) |" in sweep_report([ranked])
