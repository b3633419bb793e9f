"""The embedded policy of agents: answers, learns, and is saved, as any other backend's."""

import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import art
import numpy as np
import pytest

from precis.config import RateLimits
from precis.environments.protocol import Environment
from precis.environments.python import load_python
from precis.environments.recorder import Recorder
from precis.environments.session import Limits, Policy
from precis.environments.trajectories import group_of
from precis.errors import TrainerError
from precis.llm.client import ChatClient, OwnServer
from precis.llm.providers import Endpoint
from precis.llm.server import ChatRequest
from precis.records.rollout import Rollout, Score
from precis.rehearsal.backend import EmbeddedBackend
from precis.rehearsal.endpoint import prompt_ids
from precis.rehearsal.kind import untrained
from precis.rehearsal.tool_calls.kind import TOOL_CALLS
from precis.trainer.protocol import decode_groups, encode_groups
from tests.support import echoing

Model = art.TrainableModel[Any, Any]
LIGHTS = load_python(echoing.__file__)


@pytest.fixture
async def backend(tmp_path: Path) -> AsyncIterator[EmbeddedBackend]:
    opened = EmbeddedBackend(TOOL_CALLS, path=tmp_path)
    yield opened
    await opened.close()


@pytest.fixture
async def model(backend: EmbeddedBackend) -> AsyncIterator[Model]:
    made: Model = art.TrainableModel(
        name="agent", project="tests", base_model="tool_calls", report_metrics=[]
    )
    await made.register(backend)
    yield made
    await made.openai_client().close()


async def play(
    model: Model, environment: Environment, step: int, rollouts: int = 4, greedy: bool = False
) -> list[list[Rollout]]:
    url = str(model.openai_client().base_url).rstrip("/")
    key = model.openai_client().api_key
    endpoint = Endpoint(url, f"agent@{step}", key, key_variable="", role="policy")
    limits = RateLimits(requests_per_minute=10**6, tokens_per_minute=10**9, in_flight=100)
    async with Recorder() as recorder, ChatClient(endpoint, OwnServer(limits, 30), prices={}) as c:
        policy = Policy(
            c,
            Limits(30.0, 10, 100),
            {"temperature": 0.0 if greedy else 1.0},
            lambda scenario, index, turn: 1000 * scenario["number"] + 10 * index + turn + step,
            step=step,
            trained=True,
        )
        return [
            [await recorder.run(policy, environment, scenario, at) for at in range(rollouts)]
            for scenario in environment.scenarios("train")
        ]


def share_won(groups: Sequence[Sequence[Rollout]]) -> float:
    scores = [one.score for group in groups for one in group]
    return float(np.mean([isinstance(score, Score) and score.success for score in scores]))


async def test_a_step_that_is_done_again_samples_and_learns_the_same_bytes(
    model: Model, backend: EmbeddedBackend, tmp_path: Path
) -> None:
    first = await play(model, LIGHTS, 0)
    again = await play(model, LIGHTS, 0)
    assert [[one.calls[1].token_ids for one in group] for group in first] == [
        [one.calls[1].token_ids for one in group] for group in again
    ]
    saved = (await backend.train(model, list(map(group_of, first)))).checkpoint_path
    kept = (Path(str(saved)) / "policy.json").read_bytes()
    other = EmbeddedBackend(TOOL_CALLS, path=tmp_path / "other")
    twin: Model = art.TrainableModel(name="agent", project="tests", base_model="tool_calls")
    await twin.register(other)
    groups = decode_groups(encode_groups(map(group_of, reversed(again))))
    saved = (await other.train(twin, groups)).checkpoint_path
    assert (Path(str(saved)) / "policy.json").read_bytes() == kept
    await other.close()


@pytest.mark.parametrize(
    ("choice", "count"),
    [("none", 0), ("auto", 1), ({"type": "function", "function": {"name": "press"}}, 1)],
)
async def test_the_choice_of_a_tool_is_heeded(choice: Any, count: int) -> None:
    asked: dict[str, Any] = {"messages": [{"role": "user", "content": "[a] or [b]"}]}
    asked |= {"model": "m", "tools": [echoing.PRESS], "tool_choice": choice}
    policy = untrained(TOOL_CALLS.layout, 1)
    (answer,) = TOOL_CALLS.answer(policy, ChatRequest.model_validate(asked))
    assert len(answer.tool_calls) == count


def shown(light: str, button: str) -> art.Trajectory:
    """Somebody's answer to a light."""
    function = {"name": "press", "arguments": json.dumps({"colour": button})}
    call = {"id": light, "type": "function", "function": function}
    content = f"The lamp is {light}."
    messages: Any = [
        {"role": "user", "content": content},
        {"role": "assistant", "content": None, "tool_calls": [call]},
    ]
    tools: Any = [echoing.PRESS]
    return art.Trajectory(messages_and_choices=messages, tools=tools)


async def test_calls_are_imitated_whoever_made_them_if_they_were_allowed(
    model: Model, backend: EmbeddedBackend
) -> None:
    wrong = [shown("red", "yellow")]
    with pytest.raises(TrainerError, match="none of the 3 that its request allows"):
        await backend.train_sft(model, wrong, batch_size=1, learning_rates=[0.1])
    right = [shown(light, light) for light in echoing.COLOURS]
    await backend.train_sft(model, right, batch_size=3, learning_rates=[0.1] * 10)
    assert share_won(await play(model, LIGHTS, 1, 1, greedy=True)) == 1.0


def test_a_prompt_s_tokens_are_its_tools_and_its_messages() -> None:
    messages = [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]
    ids = prompt_ids(messages, [echoing.PRESS])
    assert len(ids) == 3
    assert ids[:2] == prompt_ids(messages[:1], [echoing.PRESS])
    assert prompt_ids(messages, None) == ids[1:]
