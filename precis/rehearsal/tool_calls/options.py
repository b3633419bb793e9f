"""The options of a request: the calls that its tools' JSON schemas allow.

Arguments can be listed if the schema has `enum`, `const` or `boolean`, or a range of integers.
Without tools the options are those in brackets in the last message: `[left]`, `[B2]`. If it has
none, they are elements in a message's form, `<move>left</move>`, one for each quoted word.
"""

import itertools
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from precis.llm.server import ApiError, Choice, ToolCall
from precis.rehearsal.endpoint import message_id

OPTIONS_MAX = 512
"""More options than these can't be learned in a rehearsal."""

_BRACKETED = re.compile(r"\[([^\[\]\n]{1,40})\]")
_ELEMENT = re.compile(r"<(\w{1,40})>([^<>\n]{1,40})</\1>")
_QUOTED = re.compile(r"""(?<!\w)(['"`])([^'"`\n]{1,40})\1(?!\w)""")
_ABSENT = object()

Message = Mapping[str, Any]
Schema = Mapping[str, Any]


@dataclass(frozen=True)
class Option:
    """A possible answer of the policy: a text, or a tool's name and its arguments as JSON."""

    name: str
    content: str

    @property
    def token(self) -> int:
        """Its token, equal to that of the assistant's message with it."""
        if not self.name:
            return message_id({"role": "assistant", "content": self.content})
        function = {"name": self.name, "arguments": self.content}
        return message_id({"tool_calls": [{"function": function}]})

    def answer(self, messages: Sequence[Message]) -> Choice:
        if not self.name:
            return Choice(self.content, completion_tokens=1)
        # Calls of a conversation have different ids, the same in a repeated rollout.
        call = ToolCall(f"call_{len(messages)}", self.name, self.content)
        return Choice("", "tool_calls", completion_tokens=1, tool_calls=[call])


def list_options(messages: Sequence[Message], tools: Sequence[Schema]) -> list[Option]:
    """Return the options of a request, in the order of its schemas. Raises ApiError, 400, if there
    are none or too many, or the tools can't be read."""
    found = itertools.chain.from_iterable(map(_calls_of, tools)) if tools else _texts(messages)
    try:
        options = list(itertools.islice(found, OPTIONS_MAX + 1))
    except (AttributeError, TypeError, ValueError) as error:
        raise ApiError(
            400, f"The request's tools are not as OpenAI's API has them: {error}.", "invalid_tools"
        ) from error
    if not options:
        message = (
            "The request has neither tools, nor an option in brackets in its last message, nor an "
            "element to fill in, such as <move>left</move>, and the embedded policy writes no "
            "text."
        )
        if tools:
            message = (
                "No tool of the request can be called by the embedded policy: give each argument "
                "an `enum`, a `const`, the type boolean, or an integer's minimum and maximum."
            )
        raise ApiError(400, message, "no_options")
    if len(options) > OPTIONS_MAX:
        raise ApiError(
            400,
            f"The request allows more than {OPTIONS_MAX} answers, and the embedded policy learns "
            "to choose among fewer: narrow the tools' schemas.",
            "too_many_options",
        )
    return options


def text_of(message: Message) -> str:
    """Return the text of a message, and its calls."""
    content = message.get("content") or ""
    if isinstance(content, list):
        content = " ".join(str(part.get("text", "")) for part in content)
    said = [str(content)]
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        said.append(f"{function.get('name')} {function.get('arguments')}")
    return " ".join(said)


def _calls_of(tool: Schema) -> Iterator[Option]:
    """Yield the calls of a tool; none if a required argument can't be listed."""
    function = tool.get("function") or {}
    schema = function.get("parameters") or {}
    required = set(schema.get("required") or ())
    names = []
    choices: list[Sequence[Any]] = []
    for name, argument in (schema.get("properties") or {}).items():
        values = _values(argument, schema.get("$defs") or {})
        if values is None and name in required:
            return
        if values is not None:
            names.append(name)
            choices.append(values if name in required else [*values, _ABSENT])
    for combination in itertools.product(*choices):
        arguments = {}
        for name, value in zip(names, combination, strict=True):
            if value is not _ABSENT:
                arguments[name] = value
        yield Option(str(function.get("name")), json.dumps(arguments))


def _values(schema: Schema | bool, definitions: Mapping[str, Schema]) -> Sequence[Any] | None:
    """Return the values that a schema allows; None if they can't be listed."""
    if isinstance(schema, bool):  # any value, or none
        return None
    # As pydantic writes an enum's class.
    schema = definitions.get(str(schema.get("$ref")).removeprefix("#/$defs/"), schema)
    if "const" in schema:
        return [schema["const"]]
    if "enum" in schema:
        return list(schema["enum"])
    if schema.get("type") == "boolean":
        return [False, True]
    if schema.get("type") == "integer" and "minimum" in schema and "maximum" in schema:
        # JSON's numbers: some libraries write 1.0 for 1.
        least = math.ceil(schema["minimum"])
        most = math.floor(schema["maximum"])
        return range(least, most + 1) if most - least < OPTIONS_MAX else None
    return None


def _texts(messages: Sequence[Message]) -> Iterator[Option]:
    """Yield the answers that a conversation without tools names."""
    bracketed = dict.fromkeys(_BRACKETED.findall(text_of(messages[-1])))
    if bracketed:
        for found in bracketed:
            yield Option("", f"[{found}]")
        return
    for message in messages:
        if message.get("role") == "assistant":
            continue
        text = text_of(message)
        shown = _ELEMENT.search(text)
        if shown:
            tag, example = shown.groups()
            quoted = [word for _, word in _QUOTED.findall(text) if word != tag]
            for word in dict.fromkeys([example, *quoted]):
                yield Option("", f"<{tag}>{word}</{tag}>")
            return
