"""Calls grouped into conversations: each continues an earlier one, or starts another."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from precis.records.rollout import Call, parsed_calls

Message = Mapping[str, Any]


@dataclass
class Conversation:
    """Calls that each continue the previous one, by their answer's index in the messages."""

    messages: list[Message]
    tools: Sequence[Message]
    calls: dict[int, Call]

    def continues_in(self, call: Call, same_tools: bool) -> bool:
        """Return whether a call repeats this conversation, with the same tools if `same_tools`."""
        if len(call.messages) < len(self.messages):
            return False
        if same_tools and list(call.tools) != list(self.tools):
            return False
        pairs = zip(self.messages, call.messages, strict=False)
        return all(one == other or _essence(one) == _essence(other) for one, other in pairs)

    def add(self, call: Call) -> None:
        """Append a call's new messages and its answer."""
        self.messages.extend(call.messages[len(self.messages) :])
        self.calls[len(self.messages)] = call
        self.messages.append(call.message)


def conversations_of(calls: Sequence[Call], *, same_tools: bool = True) -> list[Conversation]:
    """Group calls into conversations: a sub-agent, a compaction and, if `same_tools`, other tools
    start another."""
    conversations: list[Conversation] = []
    for call in calls:
        for conversation in reversed(conversations):
            if conversation.continues_in(call, same_tools):
                break
        else:
            conversation = Conversation([], call.tools, {})
            conversations.append(conversation)
        conversation.add(call)
    return conversations


def _essence(message: Message) -> tuple[Any, ...]:
    """Return a message's content without details that clients change on resending: LangChain, for
    one, changes the spaces in a call's arguments."""
    return message["role"], message.get("content") or "", parsed_calls(message)
