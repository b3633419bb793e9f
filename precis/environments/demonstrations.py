"""The demonstrations of a warm start: the best rollout of a scenario, or the lines of a file."""

import json
import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from precis.config import WarmStartConfig
from precis.environments.conversations import conversations_of
from precis.errors import ConfigError
from precis.record import json_digest
from precis.records.demonstrations import Demonstration, ShownConversation, is_imitated
from precis.records.json_file import read_json_file
from precis.records.nouns import Nouns
from precis.records.rollout import UNJUDGED, Rollout, Scenario, typed_tool
from precis.text import count_of

if TYPE_CHECKING:
    from precis.environments.protocol import Environment

SCENARIOS_DEFAULT = 200
"""The number in ART's notebook."""
_SHARE_MAX = 0.25
"""The largest share of the training scenarios that is set apart by default."""
_ROLES = ("system", "developer", "user", "assistant", "tool")

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class WarmStart:
    """The scenarios set apart for a warm start, and the demonstrations of a file, with their
    digest."""

    scenarios: tuple[Scenario, ...]
    given: tuple[Demonstration, ...] = ()
    digest: str = ""

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
    reward_min: float | None = None,
    earned: Callable[[Rollout], float | None] = lambda rollout: rollout.reward,
) -> Demonstration:
    """Return a scenario's demonstration: the rollout with the highest reward, if that is above 0,
    or at least `reward_min`. A single rollout that would be ranked against others is taken as it
    is."""
    name = rollouts[0].scenario.id
    values = [earned(one) for one in rollouts]
    scored = [value for value in values if value is not None]
    if not scored:
        cause = rollouts[0].score.cause or "not_scored"
        if cause == UNJUDGED and reward_min is None and len(rollouts) == 1:
            return demonstration_of(rollouts[0])
        return Demonstration(scenario_id=name, cause=cause if len(rollouts) == 1 else "not_scored")
    most = max(scored)
    best = rollouts[values.index(most)]
    if reward_min is None and most <= 0:
        return Demonstration(scenario_id=name, cause="nothing_earned")
    if reward_min is not None and most < reward_min:
        return Demonstration(scenario_id=name, cause="below_reward_min")
    if not best.calls:
        return Demonstration(scenario_id=name, cause="nothing_said")
    return demonstration_of(best, most)


def count_apart(config: WarmStartConfig, available: int) -> int:
    """Return how many of the training scenarios to set apart."""
    return config.scenarios or min(SCENARIOS_DEFAULT, int(_SHARE_MAX * available))


def prepare_warm_start(
    config: WarmStartConfig | None, environment: "Environment"
) -> WarmStart | None:
    """Return a run's warm start. Raises ConfigError if too few scenarios would be left."""
    if config is None:
        return None
    train = environment.scenarios("train")
    nouns = environment.nouns
    if config.source != "file":
        count = count_apart(config, len(train))
        if not 0 < count < len(train):
            raise ConfigError(
                f"warm_start sets {count} {nouns.scenarios} apart, of {len(train)} to train on.",
                "Set warm_start.scenarios to fewer than these, and at least 1.",
            )
        return WarmStart(tuple(train[-count:]))
    held_out = {one.id for one in environment.scenarios("validation")}
    shown = []
    for one in read_demonstrations(config):
        cause = "held_out" if one.scenario_id in held_out else ""
        if config.reward_min is not None and (one.reward or 0.0) < config.reward_min:
            cause = cause or "below_reward_min"
        shown.append(Demonstration(scenario_id=one.scenario_id, cause=cause) if cause else one)
    remedy = "Give it rollouts of scenarios that are not held out, or lower warm_start.reward_min."
    given = take(shown, config, remedy)
    named = {one.scenario_id for one in given if not one.cause}
    apart = tuple(one for one in train if one.id in named)
    if len(apart) == len(train):
        raise ConfigError(
            f"warm_start leaves no {nouns.scenario} for the steps: {config.file} names all of "
            f"the {nouns.scenarios} to train on.",
            "Lower warm_start.scenarios, or give the environment more of them.",
        )
    said = [one.model_dump(mode="json") for one in given]
    return WarmStart(apart, given, json_digest(said))


def take(
    shown: Iterable[Demonstration], config: WarmStartConfig, remedy: str
) -> tuple[Demonstration, ...]:
    """Return the first usable demonstrations of a file, up to `config.scenarios`; log those left
    out.

    Raises:
        ConfigError: all are left out; `remedy` goes into the message.
    """
    taken: list[Demonstration] = []
    left_out: Counter[str] = Counter()
    for one in shown:
        taken.append(one)
        if one.cause:
            left_out[one.cause] += 1
        elif len(taken) - left_out.total() == config.scenarios:
            break
    if len(taken) == left_out.total():
        causes = dict(left_out)
        raise ConfigError(f"{config.file} holds nothing that can be imitated ({causes}).", remedy)
    if left_out:
        logger.warning("Demonstrations of %s are left out: %s.", config.file, dict(left_out))
    return tuple(taken)


def read_demonstrations(config: WarmStartConfig) -> list[Demonstration]:
    """Return the demonstrations of a file: a JSON object a line, with the `messages` and `tools` of
    a rollout, and optional `id` and `reward`. Raises ConfigError with the number of a bad line."""
    read = partial(_read_row, config.reward_min is not None)
    remedy = "Give a rollout a line, with `messages` and `tools` as OpenAI's API has them."
    return read_json_file(config.file, "demonstrations", read, remedy)


def _read_row(is_rewarded: bool, number: int, row: Mapping[str, Any]) -> Demonstration:
    if not isinstance(row.get("messages"), list):
        raise ValueError('there is no list of messages; write {"messages": [...], "tools": [...]}.')
    tools = row.get("tools") or []
    named = set()
    for tool in tools if isinstance(tools, list) else [None]:
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise ValueError(
                "a tool has no function with a name; write "
                '{"type": "function", "function": {"name": ..., "parameters": ...}}.'
            )
        named.add(function["name"])
    for place, message in enumerate(row["messages"], start=1):
        _check_message(message, f"message {place}", named)
    if not any(map(is_imitated, row["messages"])):
        raise ValueError(
            "there is no answer to imitate; give it a message of the role assistant whose weight "
            "is not 0."
        )
    reward = row.get("reward")
    is_number = isinstance(reward, int | float) and math.isfinite(reward)
    if (reward is not None or is_rewarded) and not is_number:
        raise ValueError(
            f"the reward is {reward!r}; write a number, or leave reward and warm_start.reward_min "
            "out."
        )
    name = row.get("id")
    conversation = ShownConversation(
        messages=tuple(row["messages"]), tools=tuple(map(typed_tool, tools))
    )
    return Demonstration(
        scenario_id=f"line {number}" if name in (None, "") else str(name),
        conversations=(conversation,),
        reward=reward,
    )


def _check_message(message: Any, where: str, tools: set[str]) -> None:
    """Raise a ValueError if this is not a message to or from a policy."""
    role = message.get("role") if isinstance(message, dict) else None
    if role not in _ROLES:
        raise ValueError(f"{where} has the role {role!r}; write one of {', '.join(_ROLES)}.")
    calls = message.get("tool_calls") or []
    content = message.get("content")
    if not isinstance(content, str | list | None) or not isinstance(calls, list):
        raise ValueError(f"{where}: its content is not text, or its tool_calls are not a list.")
    if role != "assistant":
        return
    if not content and not calls:
        raise ValueError(f"{where} says nothing; give it a content or tool_calls.")
    for call in calls:
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict) or function.get("name") not in tools:
            called = function.get("name") if isinstance(function, dict) else None
            raise ValueError(
                f"{where} calls the tool {called!r}; its tools are {sorted(tools) or 'none'}."
            )
        try:
            arguments = json.loads(function["arguments"])
        except (KeyError, TypeError, ValueError, RecursionError):
            arguments = None
        if not isinstance(arguments, dict):
            raise ValueError(
                f"{where}: the arguments of {function['name']} are not a JSON object in a text; "
                'write them as "{\\"name\\": 1}".'
            )
