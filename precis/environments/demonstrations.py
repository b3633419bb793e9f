"""The demonstrations of a warm start: the best rollout of a scenario, or the lines of a file."""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, Json, ValidationError

from precis.config import WarmStartConfig
from precis.environments.conversations import conversations_of
from precis.errors import ConfigError
from precis.record import first_problem, json_digest
from precis.records.nouns import Nouns
from precis.records.rollout import UNJUDGED, Rollout, Scenario, Tool, typed_tool
from precis.records.rows import read_json_file
from precis.records.warm_start import Demonstration, ShownConversation, is_imitated
from precis.text import count_of

if TYPE_CHECKING:
    from precis.environments.protocol import Environment

SCENARIOS_DEFAULT = 200
"""The number in ART's notebook."""
_SHARE_MAX = 0.25
"""The largest share of the training scenarios that is set apart by default."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class WarmStart:
    """The scenarios set apart for a warm start, and the demonstrations of a file."""

    scenarios: tuple[Scenario, ...]
    given: tuple[Demonstration, ...] = ()

    @property
    def digest(self) -> str:
        """Digest of the file's demonstrations."""
        return json_digest([one.model_dump(mode="json") for one in self.given])

    def describe(self, nouns: Nouns) -> str:
        """Return a phrase on how much there is to imitate."""
        apart = f"{nouns.count(len(self.scenarios))} set apart"
        if not self.given:
            return apart
        left_out = Counter(one.cause for one in self.given)
        used = left_out.pop("", 0)
        said = f"{count_of(used, 'demonstration')}, {apart}"
        for cause, count in left_out.items():
            said += f", {count} left out: {cause}"
        return said


class _CalledFunction(BaseModel):
    name: str
    arguments: Json[dict[str, Any]]


class _ShownCall(BaseModel):
    function: _CalledFunction


class _TextPart(BaseModel):
    text: str


class _ShownMessage(BaseModel):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: list[_TextPart] | str | None = None
    tool_calls: list[_ShownCall] | None = None


class _Row(BaseModel):
    """The parts of a file's line that are checked; the others go to the trainer as they are."""

    messages: list[_ShownMessage]
    tools: list[Tool] | None = None


def demonstration_of(
    rollout: Rollout, reward: float | None = None, metrics: Mapping[str, float] | None = None
) -> Demonstration:
    """Return a rollout's answers as a demonstration; `metrics` replace the rollout's."""
    shown = []
    for conversation in conversations_of(rollout.calls):
        messages: list[dict[str, Any]] = []
        token_ids = {}
        for place, message in enumerate(conversation.messages):
            call = conversation.calls.get(place)
            if call is not None:
                answer = {"role": "assistant", "content": call.message.get("content") or None}
                if call.message.get("tool_calls"):
                    answer["tool_calls"] = call.message["tool_calls"]
                messages.append(answer)
                if call.token_ids:
                    token_ids[place] = call.token_ids
            elif message["role"] == "assistant":
                # An example in the agent's prompt, not an answer of the model.
                messages.append({**message, "weight": 0})
            else:
                messages.append(dict(message))
        shown.append(
            ShownConversation(
                messages=tuple(messages), tools=tuple(conversation.tools), token_ids=token_ids
            )
        )
    return Demonstration(
        scenario_id=rollout.scenario.id,
        conversations=tuple(shown),
        reward=reward,
        metrics=dict(rollout.metrics if metrics is None else metrics),
    )


def choose_best(
    rollouts: Sequence[Rollout],
    earned: Callable[[Rollout], float | None] = lambda rollout: rollout.reward,
) -> Demonstration:
    """Return a scenario's demonstration: the rollout with the highest reward, if that is above 0. A
    single rollout that would be ranked against others is taken as it is."""
    name = rollouts[0].scenario.id
    values = [earned(one) for one in rollouts]
    scored = [value for value in values if value is not None]
    if not scored:
        cause = rollouts[0].score.cause or "not_scored"
        if cause == UNJUDGED and len(rollouts) == 1:
            return demonstration_of(rollouts[0])
        return Demonstration(scenario_id=name, cause=cause if len(rollouts) == 1 else "not_scored")
    most = max(scored)
    best = rollouts[values.index(most)]
    if most <= 0:
        return Demonstration(scenario_id=name, cause="nothing_earned")
    if not best.calls:
        return Demonstration(scenario_id=name, cause="nothing_said")
    return demonstration_of(best, most)


def prepare_warm_start(
    config: WarmStartConfig | None, environment: "Environment"
) -> WarmStart | None:
    """Return a run's warm start. Raises ConfigError if too few scenarios would be left for the
    steps, or a file has nothing to imitate."""
    if config is None:
        return None
    train = environment.scenarios("train")
    nouns = environment.nouns
    if config.source != "file":
        count = config.scenarios or min(SCENARIOS_DEFAULT, int(_SHARE_MAX * len(train)))
        if not 0 < count < len(train):
            raise ConfigError(
                f"warm_start sets {count} {nouns.scenarios} apart, of {len(train)} to train on.",
                "Set warm_start.scenarios to fewer than these, and at least 1.",
            )
        return WarmStart(tuple(train[-count:]))
    given: list[Demonstration] = []
    apart: dict[str, Scenario] = {}
    left_out: Counter[str] = Counter()
    for one, scenario in environment.read_demonstrations(config):
        given.append(one)
        if one.cause:
            left_out[one.cause] += 1
            continue
        if scenario:
            apart[scenario.id] = scenario
        if len(given) - left_out.total() == config.scenarios:
            break
    causes = dict(left_out)
    if len(given) == left_out.total():
        raise ConfigError(
            f"{config.file} holds nothing that can be imitated ({causes}).",
            f"Give it {nouns.rollouts} of {nouns.scenarios} that are not held out, in the form "
            "that docs/configuration.md describes.",
        )
    if left_out:
        logger.warning("Demonstrations of %s are left out: %s.", config.file, causes)
    if all(one.id in apart for one in train):
        raise ConfigError(
            f"warm_start leaves no {nouns.scenario} for the steps: {config.file} names all of "
            f"the {nouns.scenarios} to train on.",
            f"Lower warm_start.scenarios, or have more {nouns.scenarios} to train on.",
        )
    return WarmStart(tuple(apart.values()), tuple(given))


def read_conversations(
    config: WarmStartConfig, environment: "Environment"
) -> Iterator[tuple[Demonstration, Scenario | None]]:
    """Yield the demonstrations of a file of JSON objects, one a line, with the `messages` and
    `tools` of a rollout, and an optional `id`. Raises ConfigError with the number of a bad line."""
    train = {one.id: one for one in environment.scenarios("train")}
    held_out = {one.id for one in environment.scenarios("validation")}
    remedy = "Give a rollout a line, with `messages` and `tools` as OpenAI's API has them."
    for one in read_json_file(config.file, "demonstrations", _read_row, remedy):
        if one.scenario_id in held_out:
            one = Demonstration(scenario_id=one.scenario_id, cause="held_out")
        yield one, train.get(one.scenario_id)


def _read_row(number: int, row: Mapping[str, Any]) -> Demonstration:
    try:
        checked = _Row.model_validate(row)
    except ValidationError as error:
        raise ValueError(f"{first_problem(error)}.") from error
    tools = {tool.function.name for tool in checked.tools or ()}
    for place, message in enumerate(checked.messages):
        where = f"messages.{place}"
        calls = message.tool_calls or []
        if message.role == "assistant" and not message.content and not calls:
            raise ValueError(f"{where} says nothing; give it a content or tool_calls.")
        for call in calls:
            if call.function.name not in tools:
                raise ValueError(
                    f"{where} calls the tool {call.function.name!r}; its tools are "
                    f"{sorted(tools) or 'none'}."
                )
    if not any(map(is_imitated, row["messages"])):
        raise ValueError(
            "there is no answer to imitate; give it a message of the role assistant whose weight "
            "is not 0."
        )
    conversation = ShownConversation(
        messages=tuple(row["messages"]), tools=tuple(map(typed_tool, row.get("tools") or []))
    )
    name = row.get("id")
    return Demonstration(
        scenario_id=f"line {number}" if name in (None, "") else str(name),
        conversations=(conversation,),
    )
