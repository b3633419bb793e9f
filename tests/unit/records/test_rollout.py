"""Rollouts, and their scenarios and scores."""

from precis.records.rollout import Call, Scenario
from tests.support.rollouts import calling


def test_a_tool_call_without_text_is_an_empty_text() -> None:
    call = Call((), {"finish_reason": "tool_calls", "message": calling("play", {"cell": 2})})
    assert (call.text, call.finish) == ("", "tool_calls")


def test_a_scenario_is_read_as_a_mapping_of_its_data_and_id() -> None:
    scenario = Scenario.of({"id": "game-7", "seed": 7})
    assert scenario["seed"] == 7
    assert {**scenario} == {"id": "game-7", "seed": 7}
    assert scenario.get("board") is None
    assert len({scenario, Scenario("game-7", {"seed": 7})}) == 1
    assert Scenario.of({"id": 7}) == Scenario("7"), "a number is an id too"
