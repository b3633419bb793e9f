"""What is wrong with settings is said without pydantic's own words."""

from collections.abc import Iterator
from typing import Any

import pytest
from prefect.settings.models.api import APISettings
from pydantic import BaseModel, ValidationError

from precis.config import BenchmarkConfig, TrainConfig
from precis.environment import Variables
from precis.records.manifests import Checkpoint
from precis.settings.environment import CommandSettings, TextArenaSettings
from precis.settings.problems import problems_in
from precis.sweep.trials import SweepConfig
from precis.trainer.protocol import TrainRequest


def problems(model: type[BaseModel], given: dict[str, Any]) -> list[str]:
    with pytest.raises(ValidationError) as caught:
        model.model_validate(given)
    return problems_in(caught.value)


def test_each_wrong_setting_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert problems(TrainConfig, {"steps": "many", "documents": {"val_size": 0}}) == [
        "documents.val_size: Input should be greater than or equal to 1",
        "steps: Input should be a valid integer, unable to parse string as an integer",
    ]
    assert problems(TrainConfig, {"stesp": 3, "judge": {"speed": 1}}) == [
        "judge.speed: there is no such setting; docs/configuration.md lists them all",
        "stesp: there is no such setting; docs/configuration.md lists them all",
    ]
    assert problems(CommandSettings, {"command": "agent", "scenarios": "a.jsonl"}) == [
        "command: Input should be a list"
    ]
    assert problems(TrainConfig, {"documents": [1]}) == [
        "documents: Input should be an object with settings by their names"
    ]
    assert problems(TrainConfig, {"trainer": {"kind": "art", "epsilon": 0, "lr": 1}}) == [
        "trainer.epsilon: Input should be greater than 0",
        "trainer.lr: there is no such setting of kind 'art'; docs/configuration.md lists them all",
    ]
    assert problems(TrainConfig, {"environment": {"moves_max": 3}}) == [
        "environment: its `kind` is missing; docs/configuration.md lists them all"
    ]
    assert problems(TextArenaSettings, {"game": "Nim-v0", "opponent": {"provider": "url"}}) == [
        "opponent: Input should be 'random'",
        "opponent.model: Field required",
    ]
    monkeypatch.setenv("VAL_SIZE", "many")
    (said,) = problems(Variables, {})  # nothing of those that could not be made
    assert said.startswith("val_size: Input should be a valid integer")


TEACHER = {"model": "m", "provider": "openrouter"}
ELSEWHERE = {**TEACHER, "base_url": "http://localhost/v1"}
RENTED: dict[str, Any] = {
    "store": "s3://bucket/prefix",
    "trainer": {"kind": "art", "engine": {"gpus": 2}},
}
ELASTIC = {"store": "s3://bucket", "cluster": {"where": "sky"}}
ASLEEP = {"engine": {"sleep_while_training": True}}


def tinker(**settings: Any) -> dict[str, Any]:
    return {"trainer": {"kind": "tinker", **settings}}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"model": "two words"}, "model: may have letters, digits, dots, dashes and underscores"),
        ({"model": "kept"}, "and is not kept or ceilings, which are other folders of the store"),
        ({"from_checkpoint": {"model": "../m"}}, "from_checkpoint.model: may have letters,"),
        ({"cluster": {"gpu": "1 H100"}}, "cluster.gpu: is a GPU as `sky show-gpus` names it"),
        ({"cluster": {"infra": ["runpod", "AWS"]}}, "cluster.infra.1: is a cloud in small letters"),
        ({"cluster": {"where": "sky"}, "store": "folder"}, "cluster.where is 'sky', but"),
        ({"trainer": {"kind": "gpu"}}, "trainer: there is no kind 'gpu'; there are 'extractive',"),
        ({"judge": {"model": "j"}}, "provider 'lexical' is one judge on this machine: set prov"),
        ({"judge": {**ELSEWHERE, "provider": "google"}}, "address of provider 'url': set provider"),
        ({"warm_start": {"source": "teacher"}}, "`teacher` belong together"),
        ({"warm_start": {"teacher": TEACHER}}, "`teacher` belong together"),
        ({"warm_start": {"source": "teacher", "teacher": ELSEWHERE}}, "set provider to url"),
        ({"warm_start": {"source": "file"}}, "`file` belong together"),
        ({"warm_start": {"file": "a.jsonl"}}, "`file` belong together"),
        ({"warm_start": {}, "trainer": {"kind": "serverless"}}, "warm_start needs a trainer of"),
        ({"off_policy_steps": 1, "trainer": {"kind": "art"}}, "engine.gpus is 1: set that to 2"),
        (
            {"off_policy_steps": 1, "trainer": {"kind": "art", **ASLEEP}},
            "and sleep_while_training to false",
        ),
        ({"off_policy_steps": 1, "trainer": {"kind": "serverless"}}, "'extractive' or 'art'"),
        ({"off_policy_steps": 1, "retention": {"keep_last": 1}}, "set keep_last to 2 or more"),
        ({"off_policy_steps": 2}, "less than or equal to 1"),
        ({"steps": 1_000_001}, "steps: Input should be less than or equal to 1000000"),
        ({**RENTED, "cluster": {"where": "sky", "gpu": "H100"}}, "set cluster.gpu to H100:2"),
        ({**RENTED, "cluster": {"where": "sky", "gpu": "H100:1"}}, "set cluster.gpu to H100:2"),
        ({"patience": 2, "retention": {"keep_best": 0}}, "set keep_best to 1 or more"),
        ({"from_checkpoint": {"model": "m", "step": 1}}, "precis runs restart"),
        ({"from_checkpoint": {"model": "m", "step": 1, "store": "s"}}, "precis runs restart"),
        ({**ELASTIC, "trainer": {"kind": "tinker"}}, "needs no machine of ours"),
        ({**ELASTIC, "trainer": {"kind": "serverless"}}, "needs no machine of ours"),
        (tinker(keep_days=7, service="skyrl"), "leave keep_days out"),
        (tinker(base_url="file:///etc/passwd"), "not an http:// or https:// address"),
        (tinker(base_url="https://user:secret@host"), "set TINKER_API_KEY instead"),
        (tinker(base_model="a; rm -rf /"), "is OWNER/NAME on the Hub or a folder"),
        (tinker(prices=[1, 2]), "Field required"),
        (tinker(lora_rank=257), "less than or equal to 256"),
    ],
)
def test_what_is_of_no_use_is_refused_in_one_sentence(given: dict[str, Any], said: str) -> None:
    (found,) = problems(TrainConfig, {"store": "s", "model": "m", **given})
    assert said in found


def test_two_gpus_are_taken_for_sampling_ahead_and_rented_for_two() -> None:
    given = {**RENTED, "off_policy_steps": 1, "cluster": {"where": "sky", "gpu": "H100:2"}}
    assert TrainConfig.model_validate(given).cluster.gpus == 2


@pytest.mark.parametrize(
    "model", [TrainConfig, BenchmarkConfig, SweepConfig, Variables, Checkpoint, TrainRequest]
)
def test_no_pattern_is_checked_in_pydantics_words(model: type[BaseModel]) -> None:
    """They would be: String should match pattern '^[a-z]…'."""
    assert not list(patterns_of(model.__pydantic_core_schema__))


def patterns_of(schema: Any) -> Iterator[str]:
    """The patterns that pydantic checks by itself, in any part of a schema."""
    if isinstance(schema, dict):
        if schema.get("type") == "str" and schema.get("pattern"):
            yield schema["pattern"]
        schema = list(schema.values())
    if isinstance(schema, list | tuple):
        for part in schema:
            yield from patterns_of(part)


def test_an_invalid_variable_of_prefect_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_API_REQUEST_TIMEOUT", "abc")
    with pytest.raises(ValidationError) as caught:
        APISettings()
    assert problems_in(caught.value) == [
        "PREFECT_API_REQUEST_TIMEOUT: Input should be a valid number, unable to parse string as a "
        "number"
    ]
