"""The embedded policy of agents: what it may answer, and what it is shown."""

from pathlib import Path
from typing import Any

import art
import pytest

from precis.errors import TrainerError
from precis.llm.server import ChatRequest
from precis.rehearsal.backend import EmbeddedBackend
from precis.rehearsal.checkpoint_files import initial_state
from precis.rehearsal.endpoint import prompt_ids
from precis.rehearsal.tool_calls.kind import TOOL_CALLS
from tests.support import echoing
from tests.support.rollouts import calling


@pytest.mark.parametrize(
    ("choice", "count"),
    [("none", 0), ("auto", 1), ({"type": "function", "function": {"name": "press"}}, 1)],
)
async def test_the_choice_of_a_tool_is_heeded(choice: Any, count: int) -> None:
    asked: dict[str, Any] = {"messages": [{"role": "user", "content": "[a] or [b]"}]}
    asked |= {"model": "m", "tools": [echoing.PRESS], "tool_choice": choice}
    policy = initial_state(TOOL_CALLS.layout, 1).policy
    (answer,) = TOOL_CALLS.answer(policy, ChatRequest.model_validate(asked))
    assert len(answer.tool_calls) == count


@pytest.mark.parametrize("arguments", [{"colour": "yellow"}, "{"])
async def test_a_call_that_its_request_does_not_allow_is_not_imitated(
    arguments: object, tmp_path: Path
) -> None:
    model: art.TrainableModel[Any, Any] = art.TrainableModel(
        name="agent", project="tests", base_model="tool_calls", report_metrics=[]
    )
    backend = EmbeddedBackend(TOOL_CALLS, path=tmp_path)
    await model.register(backend)
    asked = {"role": "user", "content": "The lamp is red."}
    messages: Any = [asked, calling("press", arguments)]
    tools: Any = [echoing.PRESS]
    shown = art.Trajectory(messages_and_choices=messages, tools=tools)
    with pytest.raises(TrainerError, match="none of the 3 that its request allows"):
        await backend.train_sft(model, [shown], batch_size=1, learning_rates=[0.1])
    await backend.close()


def test_a_prompt_s_tokens_are_its_tools_and_its_messages() -> None:
    messages = [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]
    ids = prompt_ids(messages, [echoing.PRESS])
    assert len(ids) == 3
    assert ids[:2] == prompt_ids(messages[:1], [echoing.PRESS])
    assert prompt_ids(messages, None) == ids[1:]
