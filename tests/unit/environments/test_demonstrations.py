"""What a warm start imitates: the best rollout of a scenario, or the lines of a file."""

import json
from pathlib import Path
from typing import Any

import pytest

from precis.config import WarmStartConfig
from precis.environments.demonstrations import WarmStart, choose_best, prepare_warm_start
from precis.environments.python import load_python
from precis.errors import ConfigError
from precis.records.nouns import Nouns
from precis.records.rollout import UNJUDGED, Call, Rollout, Scenario, Score, Unscored
from precis.training.warm_start import trajectory_of
from tests.support import echoing
from tests.support.rollouts import calling

ASKED = {"role": "user", "content": "The lamp is red."}
IMAGE = {"type": "image_url", "image_url": {"url": "https://example.com/lamp.png"}}


def press(colour: str, name: str = "press") -> dict[str, Any]:
    return calling(name, {"colour": colour})


def rollout(index: int, score: Score | Unscored | float) -> Rollout:
    choice = {"message": {**press("red"), "refusal": None}, "finish_reason": "tool_calls"}
    example = {"role": "assistant", "content": f"Example {index}."}
    call = Call((ASKED, example), choice, (echoing.PRESS,), token_ids=(index,))
    given = Score(score, metrics={"turns": 1.0}) if isinstance(score, float) else score
    return Rollout(Scenario("lamp-1"), index, (call,), given)


def row(**more: Any) -> dict[str, Any]:
    return {"messages": [ASKED, press("red")], "tools": [echoing.PRESS], **more}


def prepared(folder: Path, *rows: Any, **settings: Any) -> WarmStart:
    file = folder / "shown.jsonl"
    file.write_text("\n".join(one if isinstance(one, str) else json.dumps(one) for one in rows))
    config = WarmStartConfig(source="file", file=str(file), **settings)
    found = prepare_warm_start(config, load_python(str(echoing.__file__)))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("scores", "cause"),
    [
        ([0.0, -1.0], "nothing_earned"),
        ([0.0, 0.8], ""),
        ([Unscored("timeout", ""), Unscored("timeout", "")], "not_scored"),
        ([Unscored("timeout", "")], "timeout"),
        ([Unscored(UNJUDGED, "")], ""),
    ],
)
def test_what_earned_nothing_is_no_example(scores: list[Any], cause: str) -> None:
    rollouts = [rollout(index, score) for index, score in enumerate(scores)]
    assert choose_best(rollouts).cause == cause


def test_a_quarter_of_the_scenarios_is_set_apart_where_the_settings_do_not_say_how_many() -> None:
    environment: Any = load_python(str(echoing.__file__))
    found = prepare_warm_start(WarmStartConfig(), environment)
    assert found is not None
    assert [one.id for one in found.scenarios] == ["lamp-6", "lamp-7"]
    with pytest.raises(ConfigError, match="sets 8 scenarios apart, of 8"):
        prepare_warm_start(WarmStartConfig(scenarios=8), environment)
    many = [Scenario(str(number)) for number in range(1000)]
    environment.scenarios = lambda _: many
    found = prepare_warm_start(WarmStartConfig(), environment)
    assert found is not None and len(found.scenarios) == 200, "a quarter would be more"


def test_a_files_scenarios_are_set_apart_and_held_out_ones_are_left_out(tmp_path: Path) -> None:
    found = prepared(tmp_path, row(id="lamp-2"), "", row(id="lamp-9"), row(id="own"), row())
    assert [one.id for one in found.scenarios] == ["lamp-2"]
    assert [one.cause for one in found.given] == ["", "held_out", "", ""]
    assert found.given[-1].scenario_id == "line 5"
    said = "3 demonstrations, 1 scenario set apart, 1 left out: held_out"
    assert found.describe(Nouns()) == said


def test_a_files_first_so_many_that_may_be_imitated_are_taken(tmp_path: Path) -> None:
    rows = [row(id=id) for id in ("lamp-9", "a", "lamp-9", "b", "c")]
    found = prepared(tmp_path, *rows, scenarios=2)
    assert [one.cause for one in found.given] == ["held_out", "", "held_out", ""]


def test_a_tool_of_a_file_may_lack_its_type_and_have_null_for_a_value(tmp_path: Path) -> None:
    """Servers take it so, and what dumps a tool may write it so."""
    tool = {"function": {**echoing.PRESS["function"], "description": None}}
    found = prepared(tmp_path, {**row(), "tools": [tool]})
    assert trajectory_of(found.given[0]).tools == [echoing.PRESS]


def test_a_run_is_told_apart_by_what_its_file_shows(tmp_path: Path) -> None:
    first = prepared(tmp_path, row()).digest
    assert prepared(tmp_path, row()).digest == first
    assert prepared(tmp_path, {**row(), "messages": [ASKED, press("blue")]}).digest != first


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ([row(), "{}"], "line 2: messages: Field required."),
        ([row(tools=[{"name": "press"}])], "line 1: tools.0.function: Field required."),
        ([row(messages=[ASKED, {"role": "robot"}])], "messages.1.role: Input should be "),
        ([row(messages=[ASKED, {"role": "assistant"}])], "line 1: messages.1 says nothing"),
        ([row(messages=[ASKED])], "line 1: there is no answer to imitate"),
        ([row(messages=[ASKED, {**press("red"), "weight": 0}])], "there is no answer"),
        ([row(messages=[ASKED, press("red", "push")])], "calls the tool 'push'; its tools are"),
        (
            [row(messages=[calling("press", '"colour": "red"}')])],
            "line 1: messages.0.tool_calls.0.function.arguments: Invalid JSON",
        ),
        ([row(messages=[{"role": "user", "content": 7}])], "line 1: messages.0.content."),
        ([row(messages=[{**ASKED, "content": [IMAGE]}, press("red")])], ".0.text: Field required"),
        ([row(messages=["Press it."])], "line 1: messages.0: Input should be an object."),
        ([], "holds no demonstrations. Give a rollout a line"),
        ([row(id="lamp-9")], "holds nothing that can be imitated ({'held_out': 1})."),
        ([row(id="lamp-9")], "in the form that docs/configuration.md describes."),
        ([row(id=f"lamp-{n}") for n in range(8)], "leaves no scenario for the steps"),
    ],
)
def test_a_file_of_no_use_says_why(rows: list[Any], complaint: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        prepared(tmp_path, *rows)
    assert complaint in str(refused.value)
    assert "\n" not in str(refused.value)
