"""Rollouts of another model; a store keeps each answer, so that it is paid for once."""

from collections import Counter
from collections.abc import Mapping, Sequence

from precis.benchmark.client import ContenderClient
from precis.benchmark.contender import ContenderSpec, hosted_contender
from precis.benchmark.measure import measure
from precis.config import ContenderConfig, RolloutsConfig, TrainConfig
from precis.environment import Variables
from precis.environments.protocol import Environment
from precis.environments.recorder import Recorder
from precis.errors import BudgetReached, ConfigError, RolloutError
from precis.llm.budget import Budget
from precis.records.rollout import UNJUDGED, Rollout, Scenario, Unscored
from precis.records.spend import Estimate, Usage
from precis.store import Store
from precis.store.kept import KeptRecords


class Teacher:
    """The model that demonstrates the task; see `hosted_contender` for its key."""

    def __init__(
        self, config: ContenderConfig, keys: Mapping[str, str], rollouts: RolloutsConfig
    ) -> None:
        try:
            self.spec: ContenderSpec = hosted_contender(config, keys)
        except ConfigError as error:
            raise ConfigError(f"warm_start.teacher: {error}") from error
        self._rollouts = rollouts

    async def attempt(
        self,
        environment: Environment,
        scenarios: Sequence[Scenario],
        recorder: Recorder,
        store: Store,
        budget: Budget,
    ) -> list[Rollout]:
        """Return a rollout of each scenario, from kept answers where the store has them.

        Raises:
            BudgetReached: the next answer might exceed the budget; paid answers are kept.
            RolloutError: too many rollouts failed.
            StoreError: an answer can't be stored.
        """
        kept = KeptRecords(store)
        await kept.open()
        async with ContenderClient(self.spec, self._rollouts, budget, kept) as client:
            attempts = await measure(recorder, client, environment, scenarios)
        rollouts = [attempt.rollout for attempt in attempts]
        failures: list[Unscored] = []
        for rollout in rollouts:
            if isinstance(rollout.score, Unscored) and rollout.score.cause != UNJUDGED:
                failures.append(rollout.score)
        nouns = environment.nouns
        asked = len(scenarios)
        for failure in failures:
            if failure.cause == "budget":
                raise BudgetReached(
                    f"The next {nouns.rollout} of the teacher {self.spec.contender} might lead "
                    "past budget_usd; what it has answered is kept.",
                    "Raise budget_usd and start the run again to continue.",
                )
        if len(failures) > self._rollouts.unscored_share_max * asked:
            causes = dict(Counter(failure.cause for failure in failures))
            raise RolloutError(
                f"The teacher {self.spec.contender} ended only {asked - len(failures)} of {asked} "
                f"{nouns.rollouts} ({causes}). The first failure: {failures[0].detail}"
            )
        return rollouts


def teacher_of(config: TrainConfig) -> Teacher | None:
    """Return the teacher of a run, with its key from the environment; None if it has none."""
    warm_start = config.warm_start
    if warm_start is None or warm_start.teacher is None:
        return None
    return Teacher(warm_start.teacher, Variables().keys(), config.rollouts)


def forecast_teacher(
    spec: ContenderSpec, environment: Environment, scenarios: Sequence[Scenario]
) -> Estimate:
    """Return the forecast of asking the teacher for a rollout of each scenario; its dollars exclude
    reasoning, and are None if the price, or a rollout's requests, are unknown."""
    usd: float | None = None
    thinking_usd = 0.0
    dollars = "at an unknown price"
    price = spec.price
    usages = list(map(environment.estimate_usage, scenarios))
    known = [usage for usage in usages if usage is not None]
    if price is not None and len(known) == len(usages):
        usd = sum(map(price.of, known))
        dollars = f"about ${usd:,.2f}"
        thinking_usd = len(scenarios) * price.of(Usage(0, spec.thinking_tokens))
    if thinking_usd:
        dollars += f", and up to ${thinking_usd:,.2f} of thought"
    return Estimate(
        f"The teacher {spec.contender} will be asked for {len(scenarios)} "
        f"{environment.nouns.rollouts}, {dollars}, less what the store keeps.",
        usd,
    )
