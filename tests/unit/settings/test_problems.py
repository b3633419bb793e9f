"""What is wrong with settings is said without pydantic's own words."""

import pytest
from pydantic import ValidationError

from precis.config import TrainConfig
from precis.environment import Variables
from precis.settings.problems import problems_in


def test_a_setting_is_named_and_settings_that_do_not_go_together_speak_for_themselves() -> None:
    with pytest.raises(ValidationError) as caught:
        TrainConfig.model_validate({"steps": "many", "documents": {"val_size": 0}})
    assert problems_in(caught.value) == [
        "documents.val_size: Input should be greater than or equal to 1",
        "steps: Input should be a valid integer, unable to parse string as an integer",
    ]
    with pytest.raises(ValidationError) as caught:
        TrainConfig.model_validate({"stesp": 3, "judge": {"speed": 1}})
    assert problems_in(caught.value) == [
        "judge.speed: there is no such setting; docs/configuration.md lists them all",
        "stesp: there is no such setting; docs/configuration.md lists them all",
    ]
    with pytest.raises(ValidationError) as caught:
        TrainConfig.model_validate({"cluster": {"where": "sky"}, "store": "folder"})
    (said,) = problems_in(caught.value)
    assert said.startswith("cluster.where is 'sky', but")


def test_a_wrong_variable_says_nothing_of_those_that_could_not_be_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("VAL_SIZE", "many")
    with pytest.raises(ValidationError) as caught:
        Variables()
    (said,) = problems_in(caught.value)
    assert said.startswith("val_size: Input should be a valid integer")
