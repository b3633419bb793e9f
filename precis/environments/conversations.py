"""Calls as conversations: each continues an earlier one, or begins another."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from precis.records.rollout import Call

Message = Mapping[str, Any]


@dataclass
class Conversation:
    """Calls of which each continues the one before, by the place of their answer among the
    messages."""

    messages: list[Message]
    tools: Sequence[Message]
    calls: dict[int, Call]

    def continues_in(self, call: Call, same_tools: bool) -> bool:
        """Return whether a call sends all of this, and with the same tools if they count."""
        if len(call.messages) < len(self.messages):
            return False
        if same_tools and list(call.tools) != list(self.tools):
            return False
        pairs = zip(self.messages, call.messages, strict=False)
        return all(_essence(ours) == _essence(theirs) for ours, theirs in pairs)

    def add(self, call: Call) -> None:
        """Append what a call sends beyond this, and its answer."""
        self.messages.extend(call.messages[len(self.messages) :])
        self.calls[len(self.messages)] = call
        self.messages.append(call.message)


def conversations_of(calls: Sequence[Call], *, same_tools: bool = True) -> list[Conversation]:
    """Return the conversations that calls make up: a sub-agent, a compaction, and if they count
    other tools begin another."""
    conversations: list[Conversation] = []
    for call in calls:
        continued = [one for one in conversations if one.continues_in(call, same_tools)]
        if continued:
            conversation = continued[-1]
        else:
            conversation = Conversation([], call.tools, {})
            conversations.append(conversation)
        conversation.add(call)
    return conversations


def _essence(message: Message) -> tuple[Any, ...]:
    """Return what a message says, without what clients change when they send it again.

    LangChain, for one, writes a call's arguments with other spaces than the model did.
    """
    calls = []
    for call in message.get("tool_calls") or ():
        function: Mapping[str, Any] = call.get("function") or {}
        arguments: Any = function.get("arguments")
        with suppress(TypeError, ValueError, RecursionError):
            arguments = json.loads(arguments)
        calls.append((function.get("name"), arguments))
    return message["role"], message.get("content") or "", calls
