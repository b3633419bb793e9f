"""Each setting says whether it decides a run's result."""

from collections.abc import Iterator
from typing import Any, get_args

import pytest

from precis.config import TrainConfig
from precis.record import Record
from precis.settings.environment import OpponentSettings
from precis.settings.identity import Effect, effect_of
from precis.settings.trainer import TOOL_CALL_FEATURES, EngineConfig

JUDGE = {"model": "j", "protocol": "batched"}


def groups_in(annotation: Any) -> Iterator[type[Record]]:
    """The kinds of settings that a field may have."""
    if isinstance(annotation, type) and issubclass(annotation, Record):
        yield annotation
    for part in get_args(annotation):
        yield from groups_in(part)


def decisive_groups(settings: type[Record]) -> Iterator[type[Record]]:
    """The kinds of settings that what decides is made of."""
    yield settings
    for field in settings.model_fields.values():
        if effect_of(field) is Effect.DECIDES:
            for group in groups_in(field.annotation):
                yield from decisive_groups(group)


def test_every_setting_says_whether_it_decides_the_result() -> None:
    groups = set(decisive_groups(TrainConfig))
    assert {EngineConfig, OpponentSettings} < groups
    for group in groups:
        for name, field in group.model_fields.items():
            assert effect_of(field) is not None, f"{group.__name__}.{name}"


def identity(**settings: Any) -> str:
    return TrainConfig.model_validate({"store": "/s", **settings}).identity("k", JUDGE)


TEACHER = {"model": "t", "provider": "url", "base_url": "http://127.0.0.1:9/v1"}
ART = {"kind": "art"}
FORK = {"model": "other"}


def taught(**more: Any) -> dict[str, Any]:
    return {"warm_start": {"source": "teacher", "teacher": {**TEACHER, **more}}}


def played(**more: Any) -> dict[str, Any]:
    return {"environment": {"kind": "textarena", "game": "Nim-v0", **more}}


@pytest.mark.parametrize(
    ("given", "other"),
    [
        ({}, {"off_policy_steps": 1}),
        ({"trainer": ART}, {"trainer": {**ART, "base_model": "Qwen/Qwen2.5-7B-Instruct"}}),
        ({"trainer": ART}, {"trainer": {**ART, "engine": {"lora_rank": 16}}}),
        ({}, {"from_checkpoint": FORK}),
        ({"from_checkpoint": FORK}, {"from_checkpoint": {**FORK, "step": 2}}),
        ({}, {"warm_start": {}}),
        ({"warm_start": {}}, {"warm_start": {"scenarios": 7}}),
        (taught(), taught(model="u")),
        (taught(), taught(reasoning=True)),
        (played(), played(show_moves=True)),
        (played(), played(opponent=TEACHER)),
    ],
)
def test_what_decides_is_part_of_a_run(given: dict[str, Any], other: dict[str, Any]) -> None:
    assert identity(**given) != identity(**other)


AGENT = {"kind": "python", "file": "a.py"}


@pytest.mark.parametrize(
    ("given", "other"),
    [
        ({"store": "s3://b/p"}, {"store": "s3://b/p", "cluster": {"where": "sky"}}),
        ({"trainer": ART}, {"trainer": {**ART, "engine": {"gpu_memory_share": 0.7}}}),
        ({"warm_start": {}}, {"warm_start": {"measured_scenarios": 5}}),
        (taught(), taught(tries_max=2, limits={"in_flight": 3}, name="other")),
        (played(opponent=TEACHER), played(opponent={**TEACHER, "base_url": "http://b/v1"})),
        ({"environment": AGENT}, {"environment": {**AGENT, "workers": {"count": 8}}}),
    ],
)
def test_where_and_how_fast_is_no_part_of_it(given: dict[str, Any], other: dict[str, Any]) -> None:
    assert identity(**given) == identity(**other)


@pytest.mark.parametrize(
    ("environment", "differs"), [({"kind": "summaries"}, False), ("agent.py", True)]
)
def test_what_the_policy_of_agents_sees_is_part_of_an_agent_s_run(
    environment: Any, differs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = TrainConfig.model_validate({"store": "/s", "environment": environment})
    before = config.identity("k", JUDGE)
    monkeypatch.setattr("precis.config.TOOL_CALL_FEATURES", TOOL_CALL_FEATURES + 1)
    assert (config.identity("k", JUDGE) != before) == differs
