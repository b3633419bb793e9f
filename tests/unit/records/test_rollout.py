"""Rollouts, and their scenarios and scores."""

import pytest

from precis.records.rollout import Call, Rollout, Scenario, Unscored
from precis.records.spend import Usage

PLAY = {"type": "function", "function": {"name": "play", "parameters": {"type": "object"}}}
CALL = Call(
    messages=({"role": "user", "content": "x . ."},),
    choice={
        "index": 0,
        "finish_reason": "tool_calls",
        "message": {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "play", "arguments": '{"cell": 2}'},
                }
            ],
        },
    },
    tools=(PLAY,),
    prompt_ids=(1, 2, 3),
    token_ids=(4, 5),
    logprobs=(-0.5, -0.25),
    usage=Usage(3, 2),
    usd=0.001,
    seconds=0.5,
    served_by="policy@3",
    asked_at=1.0,
)


def test_a_rollout_without_a_score_has_no_reward() -> None:
    assert Rollout(Scenario("a"), 0, (), Unscored("turns", "Too many.")).reward is None


def test_a_tool_call_without_text_is_an_empty_text() -> None:
    assert CALL.text == ""
    assert CALL.finish == "tool_calls"


def test_a_scenario_is_read_as_a_mapping_of_its_data_and_id() -> None:
    scenario = Scenario.of({"id": "game-7", "seed": 7})
    assert scenario["seed"] == 7
    assert dict(scenario) == {"id": "game-7", "seed": 7}
    assert scenario.get("board") is None
    assert {**scenario} == {"id": "game-7", "seed": 7}
    assert len({scenario, Scenario("game-7", {"seed": 7})}) == 1


def test_a_number_is_an_id_too() -> None:
    assert Scenario.of({"id": 7}) == Scenario("7")


@pytest.mark.parametrize("given", [{}, {"id": ""}, {"id": None}, {"id": True}])
def test_a_scenario_without_an_id_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="give each one a text or a number"):
        Scenario.of(given)


@pytest.mark.parametrize("value", [object(), float("nan"), {1, 2}])
def test_a_scenario_that_is_not_json_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="Scenario a is not JSON"):
        Scenario.of({"id": "a", "board": value})
