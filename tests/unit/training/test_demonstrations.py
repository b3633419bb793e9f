"""Rollouts to imitate: what is kept of them, and how they are trained on."""

from pathlib import Path
from typing import Any

import art
import pytest

from precis.config import TrainConfig
from precis.errors import ConfigError, StoreConflict, StoreError
from precis.records.demonstrations import Demonstration, ShownConversation
from precis.records.rollout import Scenario
from precis.records.samples import tokens_of
from precis.store import FolderStore
from precis.trainer.protocol import decode_groups, encode_groups
from precis.training.demonstrations import (
    DemonstrationJournal,
    record_of,
    sft_options,
    trajectories,
)
from tests.support.dying_store import SilentStore
from tests.support.echoing import PRESS as PLAY


def config(**settings: Any) -> TrainConfig:
    return TrainConfig.model_validate({"store": "/s", "warm_start": settings})


def shown(number: int, cause: str = "", reward: float | None = None) -> Demonstration:
    asked = {"role": "user", "content": f"Question {number}"}
    answer = {"role": "assistant", "content": f"Answer {number}."}
    conversations = () if cause else (ShownConversation(messages=(asked, answer)),)
    return Demonstration(
        scenario_id=f"s{number}", conversations=conversations, cause=cause, reward=reward
    )


def test_what_was_collected_is_there_for_who_goes_on_with_the_same_settings(
    tmp_path: Path,
) -> None:
    store = FolderStore(tmp_path)
    DemonstrationJournal(store, "m", "c").add([shown(0), shown(1)])
    again, late = (DemonstrationJournal(store, "m", "c") for _ in range(2))
    scenarios = [Scenario(f"s{number}") for number in range(3)]
    assert again.missing(scenarios) == scenarios[2:]
    again.add([shown(2)])
    assert DemonstrationJournal(store, "m", "c").all == (shown(0), shown(1), shown(2))
    with pytest.raises(StoreConflict):
        late.add([shown(3)])  # two processes can't both add
    other = DemonstrationJournal(store, "m", "other")
    assert other.all == ()
    other.add([shown(1)])
    assert DemonstrationJournal(store, "m", "other").all == (shown(1),)


def test_what_a_batch_has_cost_counts_though_its_write_is_tried_again(tmp_path: Path) -> None:
    """A second try asks for nothing that was paid for, so it costs nothing more."""
    store = SilentStore(tmp_path)
    journal = DemonstrationJournal(store, "m", "c")
    store.silent = True
    with pytest.raises(StoreError, match="No whole answer"):
        journal.add([shown(0)], usd=2.0)
    store.silent = False
    journal.add([shown(0)])
    assert (journal.all, journal.usd) == ((shown(0),), 2.0)
    kept = DemonstrationJournal(store, "m", "c")
    assert (kept.all, kept.usd) == ((shown(0),), 2.0)


def test_a_damaged_collection_says_what_to_do(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    store.put("m/warm-start.json", b"{")
    with pytest.raises(StoreError, match="Delete it"):
        DemonstrationJournal(store, "m", "c")


def test_a_warm_start_without_anything_to_imitate_says_why() -> None:
    with pytest.raises(ConfigError, match="1 nothing_earned"):
        record_of([shown(0, "nothing_earned")], config(), 1)


def test_what_the_policy_has_sampled_keeps_its_tokens_and_the_rest_is_as_it_was_shown() -> None:
    example = {"role": "assistant", "content": "So.", "weight": 0}
    said = {"role": "assistant", "content": "Own."}
    own = ShownConversation(messages=(example, said), tools=(PLAY,), token_ids={1: (5, 6)})
    other = ShownConversation(messages=({"role": "user", "content": "Other."}, said))
    one = Demonstration(scenario_id="s", conversations=(own, other))
    (sent,) = decode_groups(encode_groups([art.TrajectoryGroup(trajectories([one]))]))
    (trajectory,) = sent.trajectories
    assert trajectory.tools == [PLAY]
    assert trajectory.messages_and_choices[0] == example
    choice: Any = trajectory.messages_and_choices[1]
    assert (choice.message.content, list(tokens_of(choice).token_ids)) == ("Own.", [5, 6])
    assert trajectory.additional_histories[0].messages_and_choices == list(other.messages)


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
