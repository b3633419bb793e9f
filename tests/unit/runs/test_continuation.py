"""A stored run is not continued with settings that would make it another one."""

from typing import Any

import pytest

from precis.config import TrainConfig
from precis.errors import ConfigError
from precis.records.ledger import Ledger
from precis.runs.continuation import check_settings


def config(**settings: Any) -> TrainConfig:
    return TrainConfig.model_validate({"model": "m", "store": "/s", **settings})


def refusal(before: TrainConfig, now: TrainConfig, corpora: tuple[str, str] = ("k", "k")) -> str:
    """What is said to somebody who continues a run with other settings."""
    ledger = Ledger(model="m", config="before", corpus=corpora[0])
    ledger = ledger.under(before.model_dump(mode="json"))
    with pytest.raises(ConfigError) as refused:
        check_settings(ledger, now, "now", corpora[1], "/s")
    return str(refused.value)


def test_each_setting_that_decides_is_named_with_both_values_and_no_other() -> None:
    before = config(seed=1, steps=3, trainer={"learning_rate": 0.02}, judge={"call_timeout_s": 5})
    now = config(seed=2, steps=9, trainer={"learning_rate": 0.05})
    said = refusal(before, now)
    assert said.startswith("/s holds a run of 'm' with other settings: seed was 1 and is 2 now; ")
    assert "trainer.learning_rate was 0.02 and is 0.05 now." in said
    assert "steps" not in said and "judge." not in said
    rollouts = {"groups_per_step": 3, "rollouts_per_group": 4, "temperature": 0.5, "words_max": 99}
    many = config(seed=3, rollouts=rollouts, trainer={"learning_rate": 0.5})
    assert "; and 1 more." in refusal(config(), many)
    ledger = Ledger(model="m", config="same", corpus="k").under(before.model_dump())
    check_settings(ledger, now, "same", "k", "/s")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"trainer": {"kind": "art"}}, 'trainer.kind was "extractive" and is "art" now.'),
        ({"warm_start": {}}, "warm_start was null and is {"),
        (
            {"judge": {"provider": "url", "model": "j", "base_url": "http://127.0.0.1:9/v1"}},
            'judge.provider was "lexical" and is "url" now; judge.model was "" and is "j"',
        ),
    ],
)
def test_a_group_of_settings_is_named_by_what_differs(changed: Any, said: str) -> None:
    refused = refusal(config(), config(**changed))
    assert said in refused and "base_url" not in refused
    assert "another name (model)" in refused and "`precis runs delete m --store " in refused


@pytest.mark.parametrize("trainer", ["tool_calls", "art"])
def test_who_trains_an_agent_is_told_the_options_of_its_command(trainer: str) -> None:
    agent = {"environment": "/agents/doors.py", "trainer": {"kind": trainer}}
    said = refusal(config(**agent), config(**agent, seed=2))
    assert "`precis train` takes --name a-new-name, and --fresh to begin again." in said
    assert ("FRESH=1" in said) is (trainer == "tool_calls")


def test_other_documents_are_named_and_the_same_ones_from_elsewhere_are_not() -> None:
    before = config(documents={"source": "a.jsonl", "train_size": 8, "val_size": 2})
    now = config(documents={"source": "b.jsonl", "train_size": 9, "val_size": 2}, seed=2)
    said = refusal(before, now, ("k", "l"))
    assert 'documents.source was "a.jsonl" and is "b.jsonl" now' in said
    assert "documents.train_size was 8 and is 9 now" in said
    assert "documents" not in refusal(before, now)
    edited = refusal(config(), config(), ("k", "l"))
    assert "other settings: the documents of bundled have changed since." in edited
    assert "the judge's prompts or rules" in refusal(config(), config())


def test_an_agent_s_environment_that_has_changed_is_named() -> None:
    doors = {"kind": "verifiers", "id": "doors"}
    countdown = {"kind": "reasoning_gym", "dataset": "countdown"}
    for given, name in ((doors, "verifiers' environment doors"), (countdown, "countdown")):
        same = config(environment=given, trainer={"kind": "art"})
        assert f"other settings: {name}, its scenarios, or" in refusal(same, same)
