"""Rollouts, and their scenarios and scores."""

import pytest

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


@pytest.mark.parametrize("given", [{}, {"id": ""}, {"id": None}, {"id": True}])
def test_a_scenario_without_an_id_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="give each one a text or a number"):
        Scenario.of(given)


@pytest.mark.parametrize("value", [object(), float("nan"), {1, 2}])
def test_a_scenario_that_is_not_json_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="Scenario a is not JSON"):
        Scenario.of({"id": "a", "board": value})
