"""What decides a run's result is marked on each setting, and its digest never changes."""

from collections.abc import Iterator
from typing import Any

import pytest

from precis.config import FromCheckpoint, RolloutsConfig, TrainConfig
from precis.record import Record
from precis.settings.identity import Effect, effect_of
from precis.settings.trainer import ArtTrainer, EngineConfig, ExtractiveTrainer, ServerlessTrainer

JUDGE = {"model": "j", "protocol": "batched"}
MARKED: tuple[type[Record], ...] = (
    TrainConfig,
    RolloutsConfig,
    FromCheckpoint,
    ExtractiveTrainer,
    ArtTrainer,
    EngineConfig,
    ServerlessTrainer,
)


@pytest.mark.parametrize("settings", MARKED)
def test_every_setting_says_whether_it_decides_the_result(settings: type[Record]) -> None:
    unmarked = [name for name, field in settings.model_fields.items() if effect_of(field) is None]
    assert not unmarked


def nested_settings(settings: Record) -> Iterator[type[Record]]:
    """The kinds of settings that what decides is made of."""
    yield type(settings)
    for name, field in type(settings).model_fields.items():
        value = getattr(settings, name)
        if effect_of(field) is Effect.DECIDES and isinstance(value, Record):
            yield from nested_settings(value)


@pytest.mark.parametrize("kind", ["extractive", "art", "serverless"])
def test_no_group_of_settings_that_decides_is_left_out_of_this_test(kind: str) -> None:
    config = TrainConfig.model_validate(
        {"store": "s", "trainer": {"kind": kind}, "from_checkpoint": {"model": "other"}}
    )
    assert set(nested_settings(config)) <= set(MARKED)


@pytest.mark.parametrize(
    ("given", "digest"),
    [
        (
            {"model": "m", "store": "/s"},
            "b44f466396af14cfd75afe15d796a2bfaeaf1227ce9e75f6144bc847cdda7078",
        ),
        (
            {
                "model": "m",
                "store": "s3://b/p",
                "trainer": {
                    "kind": "art",
                    "learning_rate": 1e-5,
                    "engine": {"lora_rank": 16, "gpus": 2},
                },
                "rollouts": {"reward": "ruler", "in_flight": 3},
                "from_checkpoint": {"model": "o", "step": 3},
            },
            "f041645f3fec2b417303e32d0af276cf63e326412665d2830585096e1f9da72d",
        ),
        (
            {"model": "m", "store": "/s", "seed": 7, "trainer": {"kind": "serverless"}},
            "db2a4f9f2e03dd58548a0c7276c9beb1b4d015bff022d6e7b05885bc4bc3ca47",
        ),
    ],
)
def test_runs_that_are_in_stores_keep_their_digest(given: dict[str, Any], digest: str) -> None:
    assert TrainConfig.model_validate(given).identity("k", JUDGE) == digest


def test_a_setting_that_was_added_later_decides_once_it_differs() -> None:
    def digest(**trainer: Any) -> str:
        given = {"model": "m", "store": "/s", "trainer": trainer}
        return TrainConfig.model_validate(given).identity("k", JUDGE)

    assert digest(scale_rewards=True) == digest()
    assert digest(scale_rewards=False) != digest()
