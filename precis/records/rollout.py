"""A rollout: one attempt at a scenario, its calls to the model, and its score.

It is the same for policy, contender, teacher and baseline, from sampling to report, and is all
JSON.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel

from precis.records.spend import Usage

Json = Mapping[str, Any]
"""A JSON object."""
Split = Literal["train", "validation"]
_NO_USAGE = Usage(0, 0)
UNJUDGED = "unjudged"
"""The cause of a complete rollout that has not been scored yet."""


@dataclass(frozen=True)
class Scenario(Mapping[str, Any]):
    """The start of a group of rollouts: a document, a board's seed, a puzzle.

    It is a mapping of its data and its id: `scenario["seed"]`.

    Attributes:
        id: unique in its environment.
        data: the environment's data, as JSON. Everything random in a rollout follows from it, so
            that the rollouts of a group differ only by the policy.
    """

    id: str
    data: Json = field(default_factory=dict)

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """Convert a scenario, or a dictionary with an `id`, to a scenario. A ValueError's message
        is a sentence."""
        if isinstance(given, cls):
            return given
        if not isinstance(given, Mapping):
            raise ValueError(f"{given!r} is not a dictionary.")
        name = given.get("id")
        if not isinstance(name, str | int) or isinstance(name, bool) or name == "":
            raise ValueError(f"A scenario has the id {name!r}: give each one a text or a number.")
        data = {key: value for key, value in given.items() if key != "id"}
        try:
            json.dumps(data, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ValueError(f"Scenario {name} is not JSON: {error}.") from error
        return cls(str(name), data)

    def __getitem__(self, key: str) -> Any:
        return self.id if key == "id" else self.data[key]

    def __iter__(self) -> Iterator[str]:
        yield "id"
        yield from (key for key in self.data if key != "id")

    def __len__(self) -> int:
        return 1 + len(self.data) - ("id" in self.data)

    def __hash__(self) -> int:
        return hash(self.id)


@dataclass(frozen=True)
class Score:
    """The score of a rollout.

    Attributes:
        reward: the value that GRPO compares within a group.
        success: the outcome that a benchmark counts (won, solved); None without one.
        metrics: the environment's own figures by name: turns, words.
        details: further information for a person, as JSON: answers and verdicts.
    """

    reward: float
    success: bool | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    details: Json = field(default_factory=dict)
    cause: ClassVar[None] = None


@dataclass(frozen=True)
class Unscored:
    """A rollout that earned no score. A missing reward is a type, never a number.

    Attributes:
        cause: a short name to count by: `rate_limited`, `timeout`, `bad_verdict`, …
        detail: a sentence for a person.
    """

    cause: str
    detail: str
    reward: ClassVar[None] = None
    success: ClassVar[None] = None


@dataclass(frozen=True)
class Call:
    """One recorded call to the model.

    Attributes:
        messages: the conversation in the request.
        choice: OpenAI's choice as JSON, without log probabilities.
        tools: the callable tools.
        prompt_ids: the prompt's tokens in the engine; empty if not reported.
        token_ids: the sampled tokens.
        logprobs: the log probabilities of these.
        usd: None if the price is unknown.
        served_by: the model's name in the response.
        asked_at: seconds since the epoch.
    """

    messages: tuple[Json, ...]
    choice: Json
    tools: tuple[Json, ...] = ()
    prompt_ids: tuple[int, ...] = ()
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    usage: Usage = _NO_USAGE
    usd: float | None = None
    seconds: float = 0.0
    served_by: str = ""
    asked_at: float = 0.0

    @property
    def message(self) -> Json:
        message: Json = self.choice["message"]
        return message

    @property
    def text(self) -> str:
        """The message's text; empty if it has none, as with tool calls."""
        return str(self.message.get("content") or "")

    @property
    def finish(self) -> str:
        return str(self.choice.get("finish_reason") or "stop")


@dataclass(frozen=True)
class Rollout:
    """One attempt at a scenario.

    Attributes:
        index: its index in the scenario's group.
        calls: in the order of their answers.
    """

    scenario: Scenario
    index: int
    calls: tuple[Call, ...]
    score: Score | Unscored

    @property
    def reward(self) -> float | None:
        """The reward; None without a score."""
        return self.score.reward

    @property
    def text(self) -> str:
        """The text of the last answer, or ""."""
        return self.calls[-1].text if self.calls else ""

    @property
    def metrics(self) -> Mapping[str, float]:
        """The metrics; empty without a score."""
        return self.score.metrics if isinstance(self.score, Score) else {}

    @property
    def usage(self) -> Usage:
        prompt_tokens = sum(call.usage.prompt_tokens for call in self.calls)
        return Usage(prompt_tokens, sum(call.usage.completion_tokens for call in self.calls))

    @property
    def seconds(self) -> float:
        return sum(call.seconds for call in self.calls)


def content_text(content: Any) -> str:
    """Return a message's content as text: OpenAI allows None, a text, or a list of parts. A part
    that is not text, such as an image, is named in brackets."""
    if not isinstance(content, list):
        return str(content or "")
    texts = []
    for part in content:
        known = part if isinstance(part, Mapping) else {}
        texts.append(str(known["text"]) if "text" in known else f"[{known.get('type', 'part')}]")
    return "".join(texts)


def tool_calls_of(message: Json) -> list[tuple[str, str, Any]]:
    """Return the name, the arguments and the id of each call, including those of custom tools."""
    calls = []
    for call in message.get("tool_calls") or ():
        called = call.get("function") or call.get("custom") or {}
        given = called.get("arguments", called.get("input", ""))
        if not isinstance(given, str):  # some clients resend them as an object
            given = json.dumps(given)
        calls.append((str(called.get("name")), given, call.get("id")))
    return calls


def parsed_calls(message: Json) -> list[tuple[str, Any]]:
    """Return the name and the arguments of each call; arguments that are not JSON are a text."""
    calls = []
    for name, given, _ in tool_calls_of(message):
        arguments: Any = given
        with suppress(ValueError, RecursionError):
            arguments = json.loads(given)
        calls.append((name, arguments))
    return calls


class _Function(BaseModel, strict=True):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Tool(BaseModel):
    """A tool that can be trained on: a function, as in OpenAI's types."""

    type: Literal["function"] = "function"
    function: _Function


def typed_tool(tool: Json) -> dict[str, Any]:
    """Return a tool in the form of OpenAI's types, which ART uses: with its type, and without
    nulls. Servers accept it either way."""
    function = tool.get("function")
    if not isinstance(function, Mapping):
        return dict(tool)
    given = {name: value for name, value in function.items() if value is not None}
    return {"type": "function", **tool, "function": given}
