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
from precis.environments.recorder import Recorder
from precis.environments.session import Limits, Policy
from precis.environments.trajectories import group_of
from precis.errors import CorruptCheckpoint, TrainerError
from precis.llm.client import ChatClient, OwnServer
from precis.llm.providers import Endpoint
from precis.llm.server import ChatRequest
from precis.records.rollout import Rollout, Scenario, Score, Split
from precis.rehearsal.backend import EmbeddedBackend
from precis.rehearsal.checkpoint_files import initial_state, load, save
from precis.rehearsal.endpoint import prompt_ids
from precis.rehearsal.kind import untrained
from precis.rehearsal.tool_calls.features import WEIGHTS, see
from precis.rehearsal.tool_calls.kind import TOOL_CALLS
from precis.rehearsal.tool_calls.options import list_options
from precis.trainer.protocol import decode_groups, encode_groups
from tests.support.examples import with_settings

Model = art.TrainableModel[Any, Any]

PRESS = {
    "type": "function",
    "function": {
        "name": "press",
        "parameters": {
            "type": "object",
            "properties": {"button": {"enum": ["red", "green", "blue"]}},
            "required": ["button"],
        },
    },
}
COLOURS = ("red", "green", "blue")


class Lights(Environment):
    """Two turns: press the button whose light is on, by a tool or, later, in brackets."""

    def __init__(self, tools: bool = True) -> None:
        self._options: dict[str, Any] = {"tools": [PRESS]} if tools else {}

    def scenarios(self, split: Split) -> Sequence[Scenario]:
        return [Scenario(f"light-{number}", {"seed": number}) for number in range(6)]

    async def rollout(self, model: Any, scenario: Scenario) -> Score:
        right = 0
        messages: list[dict[str, Any]] = []
        for turn in range(2):
            light = COLOURS[(scenario["seed"] + turn) % 3]
            content = f"The light is {light}. Press [red], [green] or [blue]."
            last = messages[-1].get("tool_calls") if messages else None
            if last:
                messages.append({"role": "tool", "tool_call_id": last[0]["id"], "content": content})
            else:
                messages.append({"role": "user", "content": content})
            reply = await model.openai_client().chat.completions.create(
                model=model.get_inference_name(), messages=messages, **self._options
            )
            message = reply.choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            if message.tool_calls:
                pressed = json.loads(message.tool_calls[0].function.arguments)["button"]
            else:
                pressed = message.content.strip("[]")
            right += pressed == light
        return Score(right / 2, right == 2)


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
    model: Model,
    environment: Environment,
    step: int,
    rollouts: int = 4,
    greedy: bool = False,
    scenarios: Sequence[Scenario] = (),
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
            lambda scenario, index, turn: 1000 * scenario["seed"] + 10 * index + turn + step,
            step=step,
            trained=True,
        )
        groups = []
        for scenario in scenarios or environment.scenarios("train"):
            groups.append(
                [await recorder.run(policy, environment, scenario, at) for at in range(rollouts)]
            )
        return groups


def share_won(groups: Sequence[Sequence[Rollout]]) -> float:
    scores = [one.score for group in groups for one in group]
    return float(np.mean([isinstance(score, Score) and score.success for score in scores]))


@pytest.mark.parametrize("tools", [True, False], ids=["tools", "brackets"])
async def test_it_learns_which_call_goes_with_which_words(
    model: Model, backend: EmbeddedBackend, tools: bool
) -> None:
    environment = Lights(tools)
    before = share_won(await play(model, environment, 0, 1, greedy=True))
    tokens = 0.0
    for step in range(5):
        groups = [group_of(group) for group in await play(model, environment, step)]
        result = await backend.train(model, groups, learning_rate=0.05)
        assert result.step == step + 1
        tokens += result.metrics["data/step_trainer_tokens"]
        # A tool's call is one token, so that each turn continues the one before.
        assert result.metrics["data/step_prefix_breaks"] == 0
    assert tokens > 0
    assert share_won(await play(model, environment, 5, 1, greedy=True)) > 0.9 > 0.4 > before


async def test_it_learns_to_read_in_houses_whose_words_it_has_never_seen(
    model: Model, backend: EmbeddedBackend, tmp_path: Path
) -> None:
    houses = with_settings("locked_rooms.py", tmp_path, ROOMS=1)
    held_out = houses.scenarios("validation")[:20]
    before = share_won(await play(model, houses, 0, 1, greedy=True, scenarios=held_out))
    for step in range(10):
        batch = houses.scenarios("train")[4 * step : 4 * step + 4]
        groups = await play(model, houses, step, scenarios=batch)
        await backend.train(model, map(group_of, groups))
    after = share_won(await play(model, houses, 10, 1, greedy=True, scenarios=held_out))
    assert before < 0.4 < 0.7 < after


async def test_a_step_that_is_done_again_samples_and_learns_the_same_bytes(
    model: Model, backend: EmbeddedBackend, tmp_path: Path
) -> None:
    first = await play(model, Lights(), 0)
    again = await play(model, Lights(), 0)
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


async def test_its_log_probabilities_are_those_of_its_choices(model: Model) -> None:
    rollouts = [one for group in await play(model, Lights(), 0) for one in group]
    logprobs = {value for one in rollouts for call in one.calls for value in call.logprobs}
    assert list(logprobs) == pytest.approx([-np.log(3)])
    assert all(len(call.token_ids) == 1 for one in rollouts for call in one.calls)
    first, second = rollouts[0].calls
    assert second.prompt_ids[: len(first.prompt_ids) + 1] == (*first.prompt_ids, *first.token_ids)


async def test_temperature_spreads_the_choices_and_none_takes_the_best() -> None:
    policy = untrained(TOOL_CALLS.layout, 1)
    said = [{"role": "user", "content": "The light is red."}]
    of_blue = see(said, list_options(said, [PRESS])).features[2]
    policy.weights[of_blue[of_blue < WEIGHTS // 2]] = 0.05
    asked: dict[str, Any] = {
        "model": "m",
        "messages": said,
        "tools": [PRESS],
        "n": 100,
        "seed": 1,
    }

    def blues(temperature: float) -> int:
        request = ChatRequest.model_validate({**asked, "temperature": temperature})
        choices = TOOL_CALLS.answer(policy, request)
        return sum('"blue"' in choice.tool_calls[0].arguments for choice in choices)

    assert blues(0.0) == 100
    assert 33 < blues(2.0) < blues(1.0) < blues(0.3) <= 100


async def test_ties_fall_by_the_seed_and_not_by_the_order_of_the_schema() -> None:
    asked: dict[str, Any] = {"messages": [{"role": "user", "content": "."}], "tools": [PRESS]}
    request = ChatRequest.model_validate({"model": "m", "temperature": 0, **asked})
    policies = [untrained(TOOL_CALLS.layout, seed) for seed in range(20)]
    picked = [TOOL_CALLS.answer(one, request)[0].tool_calls[0].arguments for one in policies]
    assert len(set(picked)) == 3
    assert picked[0] == TOOL_CALLS.answer(policies[0], request)[0].tool_calls[0].arguments


@pytest.mark.parametrize(
    ("choice", "count"),
    [("none", 0), ("auto", 1), ({"type": "function", "function": {"name": "press"}}, 1)],
)
async def test_the_choice_of_a_tool_is_heeded(choice: Any, count: int) -> None:
    asked: dict[str, Any] = {"messages": [{"role": "user", "content": "[a] or [b]"}]}
    asked |= {"model": "m", "tools": [PRESS], "tool_choice": choice}
    policy = untrained(TOOL_CALLS.layout, 1)
    (answer,) = TOOL_CALLS.answer(policy, ChatRequest.model_validate(asked))
    assert len(answer.tool_calls) == count


async def test_calls_are_imitated_whoever_made_them(model: Model, backend: EmbeddedBackend) -> None:
    shown = []
    for number, light in enumerate(COLOURS):
        function = {"name": "press", "arguments": json.dumps({"button": light})}
        call = {"id": str(number), "type": "function", "function": function}
        content = f"The light is {light}. Press [red], [green] or [blue]."
        messages: Any = [
            {"role": "user", "content": content},
            {"role": "assistant", "content": None, "tool_calls": [call]},
        ]
        tools: Any = [PRESS]
        shown.append(art.Trajectory(messages_and_choices=messages, tools=tools))
    await backend.train_sft(model, shown, batch_size=3, learning_rates=[0.1] * 10)
    assert share_won(await play(model, Lights(), 1, 1, greedy=True)) == 1.0


async def test_an_answer_that_was_not_allowed_is_not_learned_from(
    model: Model, backend: EmbeddedBackend
) -> None:
    function = {"name": "press", "arguments": '{"button": "yellow"}'}
    call = {"id": "1", "type": "function", "function": function}
    messages: Any = [
        {"role": "user", "content": "The light is red."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
    ]
    tools: Any = [PRESS]
    shown = [art.Trajectory(messages_and_choices=messages, tools=tools)]
    with pytest.raises(TrainerError, match="none of the 3 that its request allows"):
        await backend.train_sft(model, shown, batch_size=1, learning_rates=[0.1])


def test_a_checkpoint_holds_the_weights_that_are_not_zero(tmp_path: Path) -> None:
    layout = TOOL_CALLS.layout
    state = initial_state(layout, 7)
    state.policy.weights[[3, WEIGHTS - 1]] = 0.1, -1 / 3
    file = save(tmp_path, state, layout) / "policy.json"
    assert file.stat().st_size < 1000
    loaded = load(tmp_path, 0, layout)
    assert loaded.policy.weights.tobytes() == state.policy.weights.tobytes()
    record = json.loads(file.read_text())
    file.write_text(json.dumps({**record, "weights": {**record["weights"], "values": "AAA"}}))
    with pytest.raises(CorruptCheckpoint, match="can't be used as a checkpoint"):
        load(tmp_path, 0, layout)


def test_a_prompt_s_tokens_are_its_tools_and_its_messages() -> None:
    messages = [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]
    ids = prompt_ids(messages, [PRESS])
    assert len(ids) == 3
    assert ids[:2] == prompt_ids(messages[:1], [PRESS])
    assert prompt_ids(messages, None) == ids[1:]
