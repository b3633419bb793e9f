"""A rollout's conversation as Markdown, and as plain text."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from precis.environments.conversations import Conversation, conversations_of
from precis.markdown import escape, quote
from precis.records.rollout import Rollout, content_text, tool_calls_of

_FOLDED_LONGER = 400
_BEGINNING = 60

Message = Mapping[str, Any]


def show_conversation(rollout: Rollout) -> str:
    """Return a rollout as Markdown: turn by turn, with tool calls and long messages folded."""
    shown = []
    for conversation in conversations_of(rollout.calls, same_tools=False):
        shown.append("\n\n".join(_show(conversation)))
    return "\n\n---\n\n".join(shown)


def plain_conversation(rollout: Rollout, scenario_max: int | None = None) -> str:
    """Return a rollout as plain text, each message once, those before the first answer cut to
    `scenario_max` characters."""
    lines = []
    conversations = conversations_of(rollout.calls, same_tools=False)
    for number, one in enumerate(conversations, start=1):
        if len(conversations) > 1:
            lines.append(f"--- conversation {number}")
        answered = min(one.calls)
        for place, message in enumerate(one.messages):
            text = content_text(message.get("content"))
            if scenario_max is not None and place < answered and len(text) > scenario_max:
                text = f"{text[:scenario_max]}…"
            lines.append(f"{message['role']}: {text}".rstrip())
            for name, arguments, _ in tool_calls_of(message):
                lines.append(f"  calls {name}({arguments})")
    return "\n".join(lines)


def _show(conversation: Conversation) -> Iterator[str]:
    messages = conversation.messages
    results, with_calls = _results_of_calls(messages)
    turn = 0
    for place, message in enumerate(messages):
        if place in with_calls:
            continue
        text = content_text(message.get("content"))
        # A rollout from the store has only its last answer as a call.
        if message["role"] == "assistant":
            turn += 1
            yield f"**Turn {turn}**"
            if text:
                yield quote(text)
        elif len(text) > _FOLDED_LONGER:
            yield _folded(f"{message['role']}: {_beginning(text)}", [text])
        else:
            yield f"**{escape(message['role'])}**"
            yield quote(text)
        for number, (name, arguments, _) in enumerate(tool_calls_of(message)):
            label = f"{name}({_beginning(arguments)})"
            result = results.get((place, number))
            if result is not None:
                label += f" → {_beginning(result)}"
            whole = [] if _beginning(arguments) == arguments else [arguments]
            inside = [*whole, *([] if result is None else [result])]
            yield _folded(label, inside) if inside else escape(label)


def _results_of_calls(
    messages: Sequence[Message],
) -> tuple[Mapping[tuple[int, int], str], Collection[int]]:
    """Return the result of each call that has one, and the indices of these results' messages.
    Calls are identified by message index and number: servers repeat ids, or give none."""
    waiting: dict[Any, list[tuple[int, int]]] = {}
    results = {}
    places = set()
    for place, message in enumerate(messages):
        for number, (_, _, key) in enumerate(tool_calls_of(message)):
            waiting.setdefault(key, []).append((place, number))
        calls = waiting.get(message.get("tool_call_id")) if message["role"] == "tool" else None
        if calls:
            results[calls.pop(0)] = content_text(message.get("content"))
            places.add(place)
    return results, places


def _folded(label: str, texts: Sequence[str]) -> str:
    """Return escaped HTML that Prefect's page folds."""
    inside = "\n\n---\n\n".join(map(quote, texts))
    return f"<details><summary>{escape(label)}</summary>\n\n{inside}\n\n</details>"


def _beginning(text: str) -> str:
    """Return the first line of a text, with an ellipsis if there is more."""
    line = text.strip().split("\n", 1)[0]
    if len(line) > _BEGINNING:
        return f"{line[:_BEGINNING]}…"
    return line if line == text.strip() else f"{line} …"
