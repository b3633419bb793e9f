"""What an environment is: scenarios, a rollout of each, and the words to report it in."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from precis.environments.conversations import conversations_of
from precis.llm.server import Complete
from precis.records.rollout import Call, Rollout, Scenario, Score, Split, Unscored
from precis.records.spend import Spend
from precis.report.escaping import escape, quote

if TYPE_CHECKING:
    import art
    from pydantic import BaseModel

__all__ = [
    "Call",
    "Environment",
    "Figure",
    "Nouns",
    "Rollout",
    "Scenario",
    "Score",
    "Split",
    "Unscored",
]


@dataclass(frozen=True)
class Nouns:
    """The words of an environment, in which reports and messages speak of it.

    Attributes:
        rollout: one attempt: `game`, `summary`.
        scenario: the start of one: `board`, `document`.
        reward: the mean reward: `accuracy`.
        success: the share of successes: `win rate`.
        achieved: what that is the share of, in a phrase; empty for no more than its name.
    """

    rollout: str = "rollout"
    rollouts: str = "rollouts"
    scenario: str = "scenario"
    scenarios: str = "scenarios"
    reward: str = "reward"
    success: str = "success rate"
    achieved: str = ""


@dataclass(frozen=True)
class Figure:
    """A figure of many rollouts: the sum of one of their metrics over that of another.

    Attributes:
        name: what it is called in ledger and reports: `accuracy`.
        part: the metric that is summed.
        whole: the metric that it is a share of; each rollout counts as 1 if empty.
        is_share: whether it is between 0 and 1, and shown as a percentage.
        judge: the model that ruled, where that is another than the reward's.
    """

    name: str
    part: str
    whole: str = ""
    is_share: bool = False
    judge: str = ""


class Environment(Protocol):
    """What a policy is trained to do.

    `scenarios` and `rollout` are all that it must have. A class that derives from this one
    inherits the rest.

    `async with environment:` is how one is used: it starts what it needs, and stops it.
    """

    @property
    def nouns(self) -> Nouns:
        """The words to report it in."""
        return Nouns()

    @property
    def identity(self) -> Mapping[str, str]:
        """What decides a reward, beside the settings: part of the identity of a run."""
        return {}

    @property
    def model_config(self) -> "BaseModel | None":
        """What `model.config` is in a rollout."""
        return None

    @property
    def figures(self) -> Sequence[Figure]:
        """What validations report of rollouts, the measure of how good a policy is first.

        Where there are none that is the share of successes, or the mean reward.
        """
        return ()

    @property
    def digest(self) -> str:
        """A digest of the scenarios and of how they are split."""
        splits: tuple[Split, ...] = ("train", "validation")
        known = [[dict(one) for one in self.scenarios(split)] for split in splits]
        return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()

    @property
    def caveat(self) -> str:
        """What is to be known of all its figures; empty for nothing."""
        return ""

    @property
    def spend(self) -> Spend:
        """What it has spent so far, on a judge for instance."""
        return Spend()

    def scenarios(self, split: Split) -> Sequence[Scenario]:
        """The scenarios to train on, or those held out; the same ones with every call."""
        ...

    async def rollout(
        self, model: "art.Model[Any, Any]", scenario: Scenario
    ) -> "Score | Unscored | float | art.Trajectory":
        """Attempt a scenario.

        Args:
            model: asks the policy of this one rollout: `openai_client()` and
                `get_inference_name()` are as in ART's notebooks. Every call is recorded.

        Returns:
            The score, or only its reward. Of a trajectory the reward and metrics are taken; what
            is trained on are the recorded calls.
        """
        ...

    async def rank(self, group: Sequence[Rollout]) -> Sequence[Rollout]:
        """Score the rollouts of a scenario against each other, once all of them are there."""
        return group

    def baselines(self) -> Mapping[str, Complete]:
        """Policies to compare with, by name: each answers the requests that a model would."""
        return {}

    async def checks(self) -> Sequence[str]:
        """Return what would keep it from working, a sentence each; empty if nothing would."""
        return ()

    def show(self, rollout: Rollout) -> str:
        """Return a rollout as Markdown, for a person to read."""
        return show_conversation(rollout)

    async def open(self) -> None:
        """Start what it needs: a judge, a game's server."""
        return None

    async def close(self) -> None:
        """Stop what it started."""
        return None

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


def show_conversation(rollout: Rollout) -> str:
    """Return a rollout as Markdown: its conversations, with each message once."""
    shown = []
    for conversation in conversations_of(rollout.calls, same_tools=False):
        shown.append("\n\n".join(map(_show_message, conversation.messages)))
    return "\n\n---\n\n".join(shown)


def _show_message(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, list):
        content = "".join(str(part.get("text", "")) for part in content)
    lines = [f"**{escape(message['role'])}**", quote(str(content)) if content else ""]
    for call in message.get("tool_calls") or ():
        function = call["function"]
        lines.append(escape(f"{function['name']}({function['arguments']})"))
    return "\n\n".join(line for line in lines if line)
