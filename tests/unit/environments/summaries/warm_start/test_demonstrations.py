"""Summaries to imitate: what is chosen, what is kept, and how they are trained on."""

from pathlib import Path
from typing import Any

import pytest

from precis.config import TrainConfig
from precis.environments.summaries.environment import scenario_of
from precis.environments.summaries.prompt import request_in
from precis.environments.summaries.task import Summarizing
from precis.environments.summaries.warm_start.best_of_n import choose_best
from precis.environments.summaries.warm_start.demonstrations import (
    Demonstration,
    DemonstrationJournal,
    record_of,
    sft_options,
    trajectories,
)
from precis.errors import ConfigError, StoreConflict, StoreError
from precis.records.rollout import Rollout, Score, Unscored
from precis.store import FolderStore
from tests.support.bridges import document
from tests.support.rollouts import call


def rollout(index: int, correct: int | None) -> Rollout:
    """One of a document with two questions; None was not scored."""
    score: Score | Unscored = Unscored("timeout", "No answer.")
    if correct is not None:
        score = Score(correct / 2, None, {"correct": correct, "asked": 2})
    return Rollout(scenario_of(document(1)), index, (call(f"Summary {index}."),), score)


def config(**settings: Any) -> TrainConfig:
    return TrainConfig.model_validate({"store": "/s", "warm_start": settings})


def shown(number: int, cause: str = "", reward: float | None = None) -> Demonstration:
    return Demonstration(
        document_id=f"d{number}", summary=f"Summary {number}.", cause=cause, reward=reward
    )


def test_the_summary_that_earned_most_is_imitated_and_of_several_the_first() -> None:
    best = choose_best([rollout(0, 1), rollout(1, 2), rollout(2, None), rollout(3, 2)])
    assert (best.summary, best.reward, best.cause) == ("Summary 1.", 1.0, "")
    assert best.tokens == (3, 1)


def test_a_document_whose_summaries_earned_nothing_is_left_out() -> None:
    assert choose_best([rollout(0, 0), rollout(1, None)]).cause == "nothing_earned"
    assert choose_best([rollout(0, None)]).cause == "not_scored"


def test_what_was_collected_is_there_for_who_goes_on(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    DemonstrationJournal(store, "m", "c").add([shown(0), shown(1)])
    again = DemonstrationJournal(store, "m", "c")
    assert again.missing([document(0), document(1), document(2)]) == [document(2)]
    again.add([shown(2)])
    assert DemonstrationJournal(store, "m", "c").all == (shown(0), shown(1), shown(2))


def test_what_was_collected_with_other_settings_does_not_count(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    DemonstrationJournal(store, "m", "c").add([shown(0)])
    other = DemonstrationJournal(store, "m", "other")
    assert other.all == ()
    other.add([shown(1)])
    assert DemonstrationJournal(store, "m", "other").all == (shown(1),)


def test_two_processes_can_not_both_add(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    first, second = (DemonstrationJournal(store, "m", "c") for _ in range(2))
    first.add([shown(0)])
    with pytest.raises(StoreConflict):
        second.add([shown(1)])


def test_a_damaged_collection_says_what_to_do(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    store.put("m/warm-start.json", b"{")
    with pytest.raises(StoreError, match="Delete it"):
        DemonstrationJournal(store, "m", "c")


def test_the_ledger_is_told_what_was_imitated_and_what_left_out() -> None:
    given = [shown(0, reward=0.5), shown(1, reward=1.0), shown(2, "nothing_earned")]
    made = record_of(given, config(), 3)
    assert (made.source, made.documents, made.summaries) == ("best_of_n", 3, 2)
    assert made.left_out == {"nothing_earned": 1}
    assert made.reward == 0.75
    assert record_of([shown(0)], config(), 1).reward is None


def test_a_warm_start_without_anything_to_imitate_says_why() -> None:
    with pytest.raises(ConfigError, match="1 nothing_earned"):
        record_of([shown(0, "nothing_earned")], config(), 1)


def test_a_summary_is_the_answer_to_what_the_policy_is_asked() -> None:
    given = [shown(1), shown(2, "over_length")]
    (one,) = trajectories(given, [document(1), document(2)], Summarizing(99))
    messages: Any = one.messages()
    assert messages[-1] == {"role": "assistant", "content": "Summary 1."}
    request = request_in(messages)
    assert (request.text, request.words_max) == (document(1).text, 99)


def test_the_learning_rate_rises_and_falls_over_all_updates() -> None:
    options = sft_options(config(epochs=4, batch_size=3, learning_rate=0.1), 14)
    rates = options["learning_rates"]
    assert options["batch_size"] == 3
    assert len(rates) == 20
    assert rates[:2] == pytest.approx([0.05, 0.1])
    assert rates[-1] == pytest.approx(0.0)
    assert rates[1:] == sorted(rates[1:], reverse=True)


def test_each_trainer_has_a_learning_rate_of_its_own() -> None:
    def highest(trainer: dict[str, Any]) -> float:
        settings = {"store": "/s", "warm_start": {}, "trainer": trainer}
        return float(max(sft_options(TrainConfig.model_validate(settings), 40)["learning_rates"]))

    assert highest({"kind": "art"}) == 2e-4
    assert highest({"kind": "extractive"}) == 0.02
