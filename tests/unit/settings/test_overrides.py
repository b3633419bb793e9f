"""Settings over settings: what is given alone leaves the others as they were."""

from typing import Any

import pytest

from precis.config import BenchmarkConfig, TrainConfig
from precis.settings.overrides import overlay

BASE: dict[str, Any] = {
    "model": "m",
    "documents": {"source": "bundled", "train_size": 160, "val_size": 32},
    "trainer": {"kind": "art", "engine": {"lora_rank": 16, "tokens_max": 8192}},
    "judge": {"prices": {"a": [1, 2]}, "limits": {"in_flight": 4, "requests_per_minute": 10}},
}


@pytest.mark.parametrize(
    ("over", "where", "there"),
    [
        (
            {"judge": {"limits": {"in_flight": 9}}},
            "judge",
            {"prices": {"a": [1, 2]}, "limits": {"in_flight": 9, "requests_per_minute": 10}},
        ),
        (
            {"judge": {"prices": {"b": [3, 4]}}},
            "judge",
            {"prices": {"b": [3, 4]}, "limits": {"in_flight": 4, "requests_per_minute": 10}},
        ),
        ({"trainer": {"kind": "extractive"}}, "trainer", {"kind": "extractive"}),
        ({"from_checkpoint": {"model": "n"}}, "from_checkpoint", {"model": "n"}),
        ({"from_checkpoint": None}, "from_checkpoint", None),
    ],
)
def test_what_is_given_goes_first(over: dict[str, Any], where: str, there: Any) -> None:
    laid = overlay(TrainConfig, BASE, over)
    assert laid[where] == there
    assert {name: laid[name] for name in BASE if name != where} == {
        name: BASE[name] for name in BASE if name != where
    }
    TrainConfig.model_validate(laid)
    with pytest.raises(ValueError, match="stepz"):
        TrainConfig.model_validate(overlay(TrainConfig, laid, {"stepz": {"a": 1}}))


def test_contenders_are_taken_as_a_whole() -> None:
    base = {"contenders": [{"model": "a"}, {"model": "b"}]}
    others = {"contenders": [{"model": "c"}]}
    assert overlay(BenchmarkConfig, base, others) == others


def test_another_provider_keeps_neither_address_nor_model() -> None:
    url = {"provider": "url", "base_url": "http://127.0.0.1:8000/v1", "model": "j"}
    google: dict[str, Any] = {"judge": {"provider": "google", "model": "k"}}
    assert overlay(TrainConfig, {"judge": url}, google) == google
    TrainConfig.model_validate(google)
    lexical: dict[str, Any] = {"judge": {"provider": "lexical"}}
    assert overlay(TrainConfig, {"judge": url}, lexical) == lexical
    TrainConfig.model_validate(lexical)
    same = overlay(TrainConfig, {"judge": url}, {"judge": {"provider": "url", "model": "k"}})
    assert same == {"judge": {**url, "model": "k"}}
