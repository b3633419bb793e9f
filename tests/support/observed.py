"""A rollout as the observers are told of it: two turns, with a tool call between them."""

from typing import Any

from pydantic import SecretStr

from precis.environment import Variables
from precis.observe.rollouts import RolloutRecord
from precis.records.rollout import Call, Json
from precis.records.spend import Usage

START: Json = {"role": "user", "content": "Where is it?"}
PLAY = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
ASKED = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at":"N"}'}}
CALLING: Json = {"role": "assistant", "content": None, "tool_calls": [ASKED]}
RESULT: Json = {"role": "tool", "tool_call_id": "c1", "content": "A mill."}


def _call(asked_at: float, message: Json, *messages: Json) -> Call:
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    usage = Usage(40, 3)
    return Call(
        messages, choice, tools=(PLAY,), usage=usage, usd=0.001, seconds=0.25, asked_at=asked_at
    )


SEEN = RolloutRecord(
    id="0123456789abcdef0123456789abcdef",
    run="run-1",
    model="m@4",
    parameters={"temperature": 0.0},
    calls=(
        _call(1_800_000_000.25, CALLING, START),
        _call(1_800_000_001.0, {"role": "assistant", "content": "North."}, START, CALLING, RESULT),
    ),
    scores={"reward": 0.75, "turns": 2.0},
    notes={"split": "train", "step": "4", "scenario": "d"},
)


def environment(**settings: str) -> Variables:
    """One with these settings and no keys but them, whatever the shell has."""
    keys = ("openpipe_api_key", "langfuse_public_key", "langfuse_secret_key", "wandb_api_key")
    known: dict[str, Any] = dict.fromkeys((*keys, "weave_project"))
    for name, value in settings.items():
        known[name] = SecretStr(value) if name in keys else value
    return Variables().model_copy(update=known)
