"""What a trainer behind the Tinker API can be told, and what it refuses in a sentence."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from precis.cleartext import keys_in_clear
from precis.config import TrainConfig
from precis.errors import ConfigError
from precis.settings.tinker import TinkerTrainer
from precis.settings.trainer import Trainer
from precis.trainer.tinker.service import find_service

TRAINER: TypeAdapter[Any] = TypeAdapter(Trainer)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"epsilon": 0.2}, "take the loss ppo or cispo"),
        ({"epsilon_high": 0.2}, "take the loss ppo or cispo"),
        ({"loss": "dapo"}, "'importance_sampling', 'ppo' or 'cispo'"),
        ({"service": "skyrl", "loss": "ppo"}, "does not have the loss ppo"),
        ({"service": "skyrl", "keep_days": 7}, "leave keep_days out"),
        ({"base_url": "file:///etc/passwd"}, "not an http:// or https:// address"),
        ({"base_url": "https://user:secret@host"}, "set TINKER_API_KEY instead"),
        ({"base_model": "a; rm -rf /"}, "is OWNER/NAME on the Hub or a folder"),
        ({"prices": [1, 2]}, "Field required"),
        ({"lora_rank": 257}, "less than or equal to 256"),
        ({"loss": "ppo", "epsilon": 1.1}, "less than or equal to 1"),
    ],
)
def test_what_the_service_does_not_have_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as raised:
        TRAINER.validate_python({"kind": "tinker", **given})
    assert said in str(raised.value)


def test_it_is_looked_for_where_it_runs() -> None:
    assert TinkerTrainer().address is None
    assert TinkerTrainer(service="skyrl").address == "http://127.0.0.1:8000"
    assert TinkerTrainer(base_url="https://host/api/").address == "https://host/api"


@pytest.mark.parametrize("kind", ["tinker", "serverless"])
def test_no_machine_is_rented_for_what_trains_elsewhere(kind: str) -> None:
    rented = {"trainer": {"kind": kind}, "cluster": {"where": "sky"}, "store": "s3://b"}
    with pytest.raises(ValidationError, match="needs no machine of ours"):
        TrainConfig.model_validate(rented)


def test_a_key_that_would_cross_a_network_in_clear_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TINKER_API_KEY", "tml-key")
    for address, said in [("http://10.0.0.7:8000", True), ("http://127.0.0.1:8000", False)]:
        trainer = {"kind": "tinker", "base_url": address}
        sentences = keys_in_clear(TrainConfig.model_validate({"trainer": trainer, "store": "s"}))
        assert any("TINKER_API_KEY goes to" in sentence for sentence in sentences) == said


def test_a_key_is_taken_without_the_space_around_it_and_refused_on_two_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TINKER_API_KEY", raising=False)
    with pytest.raises(ConfigError, match="TINKER_API_KEY: set it"):
        find_service(TinkerTrainer())
    monkeypatch.setenv("TINKER_API_KEY", " tml-key\n")
    assert find_service(TinkerTrainer()).key == "tml-key"
    monkeypatch.setenv("TINKER_API_KEY", "tml-key\ntml-key")
    with pytest.raises(ConfigError, match="TINKER_API_KEY holds characters that no key has"):
        find_service(TinkerTrainer())
