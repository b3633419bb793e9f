"""The parts of an environment: scenarios, a rollout of each, and the words to report it in."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self

from precis.environments.demonstrations import WarmStart, choose_best
from precis.environments.show import plain_conversation, show_conversation
from precis.errors import ConfigError
from precis.llm.budget import PaidOnce
from precis.llm.server import Complete
from precis.record import json_digest
from precis.records.demonstrations import Demonstration
from precis.records.nouns import Figure, Nouns
from precis.records.questions import QuestionRow
from precis.records.rollout import (
    Call,
    Rollout,
    Scenario,
    Score,
    Split,
    Unscored,
)
from precis.records.spend import Estimate, Spend, Usage
from precis.store import Store

if TYPE_CHECKING:
    import art
    from pydantic import BaseModel

    from precis.config import BenchmarkConfig, TrainConfig

__all__ = [
    "Call",
    "Environment",
    "Figure",
    "Nouns",
    "QuestionRow",
    "Rollout",
    "Scenario",
    "Score",
    "Split",
    "Unscored",
]

SPLITS: tuple[Split, ...] = ("train", "validation")


class Environment(Protocol):
    """A task that a policy is trained to do. `scenarios` and `rollout` are all that it must have;
    `async with environment:` starts what it needs, and stops it."""

    warm_start: WarmStart | None = None
    """The scenarios and demonstrations to imitate before the first step."""
    takes_random_player: bool = True
    """True if a benchmark compares with a player that picks any of the calls that tools allow."""
    nouns: Nouns = Nouns()
    """The words to report it in."""
    model_config: "BaseModel | None" = None
    """The value of `model.config` in a rollout."""
    figures: Sequence[Figure] = ()
    """The figures that validations report of rollouts, the measure of how good a policy is first.

    Where there are none that is the share of successes, or the mean reward.
    """
    columns: Sequence[Figure] | None = None
    """The figures of a benchmark's table beside the measure; None for each metric's mean."""
    disqualifiers: Sequence[str] = ()
    """Metrics of which each says, with 1, why a rollout earned nothing."""
    caveat: str = ""
    """A warning that applies to all its figures; empty for none."""

    @property
    def identity(self) -> Mapping[str, str]:
        """The values that decide a reward, beside the settings: part of the identity of a run."""
        return {}

    @property
    def rules(self) -> str:
        """The rules of the score, in a word: results by other rules are not compared."""
        return ", ".join(f"{name} {value}" for name, value in self.identity.items())

    @property
    def method(self) -> str:
        """The way in which a rollout is scored, in a sentence or two for a benchmark's page."""
        return ""

    @property
    def digest(self) -> str:
        """A digest of the scenarios and of how they are split."""
        known = [list(map(dict, self.scenarios(split))) for split in SPLITS]
        return json_digest(known)

    @property
    def spend(self) -> Spend:
        """The environment's spend so far, on a judge for instance."""
        return Spend()

    def scenarios(self, split: Split) -> Sequence[Scenario]:
        """Return the scenarios to train on, or those held out; the same ones with every call."""
        ...

    async def rollout(
        self, model: "art.Model[Any, Any]", scenario: Scenario
    ) -> "Score | Unscored | float | art.Trajectory":
        """Attempt a scenario, and return the score, only its reward, or a trajectory that has it.

        Args:
            model: asks the policy of this one rollout, as in ART's notebooks; every call is
                recorded, and trained on.
        """
        ...

    async def rank(self, group: Sequence[Rollout]) -> Sequence[Rollout]:
        """Score the rollouts of a scenario against each other, once all of them are there."""
        return group

    @property
    def compares(self) -> bool:
        """Return whether `compare` has something to do."""
        return False

    async def compare(
        self, rollouts: Sequence[Rollout], first: Sequence[Rollout] | None
    ) -> Sequence[Rollout]:
        """Score held-out rollouts without a score of their own by those of the run's first
        validation; None if these are they."""
        return rollouts

    def baselines(self) -> Mapping[str, Complete]:
        """Policies to compare with, by name: each answers the requests that a model would."""
        return {}

    @property
    def usual_baselines(self) -> Sequence[str]:
        """The baselines of a benchmark whose settings name none."""
        return tuple(self.baselines())

    def for_benchmark(self, config: "BenchmarkConfig", paid: PaidOnce) -> "Environment | None":
        """Return the environment as a benchmark asks it, which scores by `paid.ask` where that
        costs something. None if `paid` is dry, and the environment can't do without."""
        return None if paid.dry else self

    def forecast(self, rollouts: int) -> Estimate | None:
        """Return what scoring so many held-out rollouts costs; None where it costs nothing."""
        return None

    def forecasts(self, config: "TrainConfig", next_step: int) -> Sequence[Estimate]:
        """Return what the rest of a run will cost, as far as it can be foreseen."""
        return ()

    def estimate_usage(self, scenario: Scenario) -> Usage | None:
        """Return about how many tokens a rollout of a scenario takes; None if it can't be told."""
        return None

    def demonstrate(
        self, rollouts: Sequence[Rollout], reward_min: float | None = None
    ) -> Demonstration:
        """Return what a warm start is to imitate of a scenario, or the cause why nothing; see
        `choose_best`."""
        return choose_best(rollouts, reward_min)

    def unjudged(self) -> "Environment":
        """Return the environment without what scoring costs: a rollout may be Unscored then."""
        return self

    async def ceiling(self, store: Store, scenarios_max: int | None = None) -> float | None:
        """Return the best measure that any policy could reach, by so many held-out scenarios; None
        where it is not known. The store keeps it where it is dear to find."""
        return None

    def check_ceiling(self, ceiling: float, least: float) -> str:
        """Return what to say of a low ceiling; empty for nothing. Lower than the least is a
        ConfigError."""
        return ""

    def content_of(self, scenario: Scenario) -> str:
        """Return what a policy could learn by heart of a scenario."""
        return json.dumps(dict(scenario.data), sort_keys=True)

    @property
    def learned(self) -> Sequence[str]:
        """The contents of all that a policy is trained on."""
        return list(map(self.content_of, self.scenarios("train")))

    def topic_of(self, scenario: Scenario) -> str:
        """Return what a report groups a scenario under; empty for nothing."""
        return ""

    def questions(self, rollout: Rollout) -> Sequence[QuestionRow]:
        """Return what was asked about a rollout, for the second table of a benchmark's results."""
        return ()

    def text_of(self, rollout: Rollout) -> str:
        """Return a rollout as the results of a benchmark hold it: plain text."""
        return plain_conversation(rollout)

    @property
    def trials(self) -> Mapping[str, Callable[[], Awaitable[str]]]:
        """Checks of what it asks, by name, for the table of a run's preflight: each returns what it
        found, or raises a PrecisError."""
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

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def check_scenarios(where: str, scenarios: Mapping[Split, Sequence[Scenario]]) -> None:
    """Refuse a split without scenarios, and an id that two of them have, in whichever split."""
    seen: set[str] = set()
    for split, found in scenarios.items():
        if not found:
            raise ConfigError(
                f"{where} gives no scenarios for the split {split!r}.",
                "Give scenarios to both: a JSONL file marks those to hold out by "
                '"split": "validation".',
            )
        for one in found:
            if one.id in seen:
                raise ConfigError(
                    f"{where}: two scenarios have the id {one.id!r}.",
                    "Give each one of its own: what is held out is not to be trained on.",
                )
            seen.add(one.id)
