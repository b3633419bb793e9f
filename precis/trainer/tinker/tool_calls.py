"""Calls of tools in what a model has written, in the form that most open models have learned."""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from precis.llm.server import ToolCall

BEGIN = "<tool_call>"
"""The beginning of a call in a chat template of Hermes' form, as in those of Qwen2.5 and Qwen3."""
_CALL = re.compile(r"<tool_call>\s*(.*?)\s*(?:</tool_call>|$)", re.DOTALL)


@dataclass(frozen=True)
class Written:
    """An answer: its calls, and the text beside them."""

    text: str
    calls: Sequence[ToolCall]


def read_calls(text: str, turn: int) -> Written:
    """Return the calls in an answer; none where one of them can't be read, as vLLM's parser does.
    The turn makes their ids differ within a conversation."""
    calls = []
    for number, found in enumerate(_CALL.findall(text)):
        try:
            made = json.loads(found)
            arguments = json.dumps(made["arguments"], ensure_ascii=False)
            call = ToolCall(f"call_{turn}_{number}", str(made["name"]), arguments)
            f"{call.name}{arguments}".encode()  # half a character can't be sent
            calls.append(call)
        except (ValueError, KeyError, TypeError, RecursionError):
            return Written(text, ())
    before = text.partition(BEGIN)[0].strip() if calls else text
    return Written(before, calls)


def for_template(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return messages as chat templates take them: arguments as objects, and no text as empty."""
    prepared = []
    for message in messages:
        one = {**message, "content": message.get("content") or ""}
        if message.get("tool_calls"):
            one["tool_calls"] = []
            for call in message["tool_calls"]:
                function = dict(call["function"])
                with suppress(ValueError, TypeError):  # what can't be read stays as it was written
                    function["arguments"] = json.loads(function["arguments"])
                one["tool_calls"].append({**call, "function": function})
        prepared.append(one)
    return prepared
