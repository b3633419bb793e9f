"""The interface of an environment: scenarios, rollouts, and the words for reports."""

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias

from pydantic import BaseModel

from precis.config import BenchmarkConfig, TrainConfig, WarmStartConfig
from precis.environments.demonstrations import WarmStart, choose_best, read_conversations
from precis.environments.show import plain_conversation, show_conversation
from precis.errors import ConfigError
from precis.llm.budget import PaidOnce
from precis.llm.server import Complete
from precis.record import json_digest
from precis.records.nouns import Figure as Figure
from precis.records.nouns import Nouns as Nouns
from precis.records.questions import QuestionRow
from precis.records.rollout import Rollout as Rollout
from precis.records.rollout import Scenario as Scenario
from precis.records.rollout import Score as Score
from precis.records.rollout import Split as Split
from precis.records.rollout import Unscored as Unscored
from precis.records.spend import Estimate, Spend, Usage
from precis.records.warm_start import Demonstration
from precis.store import Store

if TYPE_CHECKING:
    import art

AgentModel: TypeAlias = "art.Model[Any, Any]"
"""An agent's model in a rollout."""
Outcome: TypeAlias = "Score | Unscored | float | art.Trajectory"
"""The result of a rollout: its score, its reward alone, or a trajectory with a reward."""
SPLITS: tuple[Split, ...] = ("train", "validation")


class Environment(Protocol):
    """A task that a policy is trained for. Only `scenarios` and `rollout` are required; `async with
    environment:` opens and closes it."""

    warm_start: WarmStart | None = None
    """The scenarios and demonstrations to imitate before the first step."""
    takes_random_player: bool = True
    """True if a benchmark compares with a player that picks any call that the tools allow."""
    nouns: Nouns = Nouns()
    """The words for its reports."""
    model_config: BaseModel | None = None
    """The value of `model.config` in a rollout."""
    figures: Sequence[Figure] = ()
    """The figures that validations report of rollouts; the first is the measure of a policy.

    Without any, the measure is the share of successes, or the mean reward.
    """
    columns: Sequence[Figure] | None = None
    """The figures of a benchmark's table beside the measure; None for each metric's mean."""
    disqualifiers: Sequence[str] = ()
    """Metrics that give the reason for a reward of 0, by the value 1."""
    caveat: str = ""
    """A warning that applies to all its figures; empty for none."""

    @property
    def identity(self) -> Mapping[str, str]:
        """The values that determine a reward, beside the settings: part of a run's identity."""
        return {}

    @property
    def rules(self) -> str:
        """The name of the scoring rules: results by other rules are not compared."""
        return ", ".join(f"{name} {value}" for name, value in self.identity.items())

    @property
    def method(self) -> str:
        """A description of the scoring, in a sentence or two for a benchmark's page."""
        return ""

    @property
    def digest(self) -> str:
        """A digest of the scenarios and their split."""
        known = [list(map(dict, self.scenarios(split))) for split in SPLITS]
        return json_digest(known)

    @property
    def spend(self) -> Spend:
        """The environment's spend so far, such as a judge's."""
        return Spend()

    def scenarios(self, split: Split) -> Sequence[Scenario]:
        """Return the scenarios to train on, or those held out; the same ones in every call."""
        ...

    async def rollout(self, model: AgentModel, scenario: Scenario) -> Outcome:
        """Attempt a scenario with a model that calls the policy, as in ART's notebooks; every call
        is recorded, and trained on."""
        ...

    async def rank(self, group: Sequence[Rollout]) -> Sequence[Rollout]:
        """Score the finished rollouts of a scenario against each other."""
        return group

    @property
    def compares(self) -> bool:
        """True if `compare` scores rollouts."""
        return False

    async def compare(
        self, rollouts: Sequence[Rollout], first: Sequence[Rollout] | None
    ) -> Sequence[Rollout]:
        """Score unscored held-out rollouts against those of the run's first validation; None for
        that validation itself."""
        return rollouts

    def baselines(self) -> Mapping[str, Complete]:
        """Return baseline policies, by name: each answers requests in place of a model."""
        return {}

    @property
    def usual_baselines(self) -> Sequence[str]:
        """The default baselines of a benchmark."""
        return tuple(self.baselines())

    def for_benchmark(self, config: BenchmarkConfig, paid: PaidOnce) -> "Environment | None":
        """Return the environment for a benchmark, which pays for scoring through `paid.ask`. None
        if `paid` is dry, and the environment can't run without it."""
        return None if paid.dry else self

    def forecast(self, rollouts: int, *, ceiling: bool = True) -> Estimate | None:
        """Return the cost of scoring this many held-out rollouts, and of measuring the ceiling
        where there is one; None if it is free."""
        return None

    def forecasts(self, config: TrainConfig, next_step: int) -> Sequence[Estimate]:
        """Return estimates of the rest of a run's cost."""
        return ()

    def estimate_usage(self, scenario: Scenario) -> Usage | None:
        """Return about how many tokens a rollout of a scenario takes; None if unknown."""
        return None

    def demonstrate(self, rollouts: Sequence[Rollout]) -> Demonstration:
        """Return a scenario's demonstration, or the cause why there is none; see `choose_best`."""
        return choose_best(rollouts)

    def read_demonstrations(
        self, config: WarmStartConfig
    ) -> Iterable[tuple[Demonstration, Scenario | None]]:
        """Yield the demonstrations of a warm start's file, each with its scenario, where that is
        one to train on."""
        return read_conversations(config, self)

    def unjudged(self) -> "Environment":
        """Return the environment without paid scoring: rollouts may then be Unscored."""
        return self

    async def ceiling(self, store: Store, scenarios_max: int | None = None) -> float | None:
        """Return the best measure that any policy could reach, on this many held-out scenarios;
        None if unknown. An expensive one is kept in the store."""
        return None

    def check_ceiling(self, ceiling: float, least: float) -> str:
        """Return a warning of a low ceiling, or "". Raises ConfigError below `least`."""
        return ""

    def content_of(self, scenario: Scenario) -> str:
        """Return the content of a scenario that a policy could memorize."""
        return json.dumps(dict(scenario.data) or scenario.id, sort_keys=True)

    @property
    def learned(self) -> Sequence[str]:
        """The contents of all that a policy is trained on."""
        shown = self.warm_start.scenarios if self.warm_start else ()
        return list(map(self.content_of, (*self.scenarios("train"), *shown)))

    def topic_of(self, scenario: Scenario) -> str:
        """Return a scenario's group in reports, or ""."""
        return ""

    def questions(self, rollout: Rollout) -> Sequence[QuestionRow]:
        """Return the questions about a rollout, for the second table of a benchmark's results."""
        return ()

    def text_of(self, rollout: Rollout) -> str:
        """Return a rollout as plain text, for a benchmark's results."""
        return plain_conversation(rollout)

    @property
    def trials(self) -> Mapping[str, Callable[[], Awaitable[str]]]:
        """Checks of the services that it uses, by name, for a run's preflight: each returns its
        finding, or raises a PrecisError."""
        return {}

    async def checks(self) -> Sequence[str]:
        """Return what would keep it from working, a sentence each; empty if all is well."""
        return ()

    def show(self, rollout: Rollout) -> str:
        """Return a rollout as Markdown, for a person to read."""
        return show_conversation(rollout)

    async def open(self) -> None:
        """Start its resources, such as a judge or a game's server."""
        return None

    async def close(self) -> None:
        """Stop its resources."""
        return None

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def check_scenarios(where: str, scenarios: Mapping[Split, Sequence[Scenario]], remedy: str) -> None:
    """Refuse a split without scenarios, with a remedy, and a duplicate id, within a split or across
    both."""
    seen: set[str] = set()
    for split, found in scenarios.items():
        if not found:
            raise ConfigError(f"{where} gives no scenarios for the split {split!r}.", remedy)
        for one in found:
            if one.id in seen:
                raise ConfigError(
                    f"{where}: two scenarios have the id {one.id!r}.",
                    "Give each one of its own: what is held out is not to be trained on.",
                )
            seen.add(one.id)
