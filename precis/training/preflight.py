"""The checks of a run before anything is rented, beside Prefect's own part."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from precis.benchmark.contender import ContenderSpec
from precis.checks import Check, CheckResult, check_wandb, run_checks
from precis.cleartext import keys_in_clear
from precis.cluster.gpus import gpus_suffice
from precis.cluster.offers import budget_lasts, gpu_offered, infra_enabled
from precis.cluster.task import caveats_of_bucket
from precis.config import TrainConfig
from precis.environments.protocol import Environment
from precis.errors import ConfigError, ProviderFailed, ProviderRejected
from precis.llm.client import ChatClient, CompletionRequest
from precis.llm.replies import REFUSALS
from precis.llm.retry import Deadline
from precis.models.licences import check_licence, restriction_of
from precis.records.ledger import Ledger, find_ledger
from precis.records.rollout import Scenario
from precis.records.spend import Estimate, Usage
from precis.runs.continuation import check_settings
from precis.runs.outlook import RunPlan
from precis.runs.repair import refuse_lost_ledger
from precis.store import Store, open_store
from precis.text import write_dollars
from precis.trainer.tinker.check import check_service
from precis.training.fork import origin_of
from precis.training.run import identity_of
from precis.training.warm_start import teacher_of

_log = logging.getLogger(__name__)

_CEILING_SCENARIOS = 50
"""Held-out scenarios for an estimate of the ceiling; the benchmark takes all of them."""


class Preflight:
    """The checks of a run; each is a method that returns its finding, or raises a PrecisError.

    Not a dataclass: Prefect walks through those, and the corpus is large. `warn` is called with
    each oddity that need not stop the run.
    """

    def __init__(
        self, config: TrainConfig, environment: Environment, warn: Callable[[str], None]
    ) -> None:
        self.config = config
        self._environment = environment
        self._warn = warn

    def warnings(self) -> list[str]:
        """Return the warnings about the run."""
        found = [restriction_of(self.config.trainer), self._environment.caveat]
        return list(filter(None, [*found, *keys_in_clear(self.config)]))

    async def run(self, others: Mapping[str, Check]) -> list[CheckResult]:
        """Make all checks, and `others`; the ceiling is measured once all have passed."""
        rows = await run_checks({**self.checks(), **others})
        if all(row.ok for row in rows):
            rows += await run_checks({"ceiling": self.ceiling})
        return rows

    def checks(self) -> dict[str, Check]:
        """Map the names in the table to checks that can all run at the same time."""
        trainer = self.config.trainer
        checks: dict[str, Check] = {
            self._environment.nouns.scenarios: self.scenarios,
            "environment": self.environment,
            "store": self.store,
            "W&B": partial(check_wandb, trainer),
            "licence": partial(check_licence, trainer),
        }
        if trainer.kind == "tinker":
            checks["Tinker"] = partial(check_service, trainer)
        checks |= self._environment.trials
        if self._environment.warm_start is not None:
            checks["warm start"] = partial(check_warm_start, self.config, self._environment)
        cluster = self.config.cluster
        if cluster.where == "local" and trainer.kind == "art":
            checks["GPU"] = partial(gpus_suffice, trainer.engine.gpus)
        if cluster.where == "sky":
            checks["SkyPilot's keys"] = partial(infra_enabled, cluster)
            checks["GPU"] = partial(gpu_offered, cluster)
            checks["budget"] = partial(budget_lasts, cluster, self.config.budget_usd)
        return checks

    async def scenarios(self) -> str:
        """Count the scenarios of both splits."""
        train = len(self._environment.scenarios("train"))
        held_out = len(self._environment.scenarios("validation"))
        return f"{train} to train on, {held_out} held out"

    async def environment(self) -> str:
        """Have the environment check itself."""
        problems = await self._environment.checks()
        if problems:
            raise ConfigError(" ".join(problems))
        return "nothing is missing"

    async def store(self) -> str:
        """Check that the store can be written, and has the checkpoint to begin or continue with."""
        config = self.config
        store = open_store(config.store)
        await asyncio.to_thread(store.check)
        ledger = await asyncio.to_thread(find_stored_run, store, config)
        if ledger is not None:
            identity = identity_of(config, self._environment)
            check_settings(ledger, config, identity, self._environment.digest, store.url)
        if config.cluster.where == "sky":
            for caveat in await asyncio.to_thread(caveats_of_bucket):
                self._warn(caveat)
        return store.url

    async def ceiling(self) -> str:
        """Return the best result that a policy could reach, on a sample of many scenarios. Called
        once all others have passed, since it may cost calls of a judge."""
        environment = self._environment
        store = open_store(self.config.store)
        found = await environment.ceiling(store, _CEILING_SCENARIOS)
        if found is None:
            return "not measured"
        warning = environment.check_ceiling(found, self.config.ceiling_min)
        if warning:
            self._warn(warning)
        return f"{found:.0%} {environment.nouns.reward} can be reached"


async def check_warm_start(config: TrainConfig, environment: Environment) -> str:
    """Return how much there is to imitate, and the teacher. Before the run's first step, greets
    it; raises ProviderRejected if it rejects the key or the model."""
    assert environment.warm_start is not None
    found = environment.warm_start.describe(environment.nouns)
    teacher = teacher_of(config)
    if teacher is None:
        return found
    endpoint = teacher.endpoint
    found += f", by {endpoint.model} at {endpoint.base_url}"
    store = open_store(config.store)
    await asyncio.to_thread(store.check)  # which makes a bucket that may be made
    stored = await asyncio.to_thread(find_ledger, store, config.model)
    if stored is not None and stored[0].next_step > 0:
        return found
    payload = {"model": endpoint.model, "messages": [{"role": "user", "content": "Hello."}]}
    once = teacher.settings.model_copy(update={"tries_max": 1})
    try:
        async with ChatClient(endpoint, once, prices={}) as client:
            asked = CompletionRequest(payload, Usage(0, 0))
            await client.complete(asked, Deadline(once.call_timeout_s), read=lambda reply: reply)
    except (ProviderFailed, ProviderRejected) as error:
        if isinstance(error, ProviderRejected) and error.status not in REFUSALS:
            raise
        # The store may have all of its answers; or it refuses mere greetings.
        return f"{found}, which does not answer a greeting: {error}"
    return f"{found}, which answers"


def find_stored_run(store: Store, config: TrainConfig) -> Ledger | None:
    """Return the ledger of the run to continue; None for a new run. An UnusableRun says that the
    ledger is lost, a ConfigError that a new run's first checkpoint is missing."""
    found = find_ledger(store, config.model)
    if found is not None:
        return found[0]
    refuse_lost_ledger(store, config.model)
    if config.from_checkpoint is not None:
        origin_of(store, config.from_checkpoint)
    return None


async def find_finished_run(config: TrainConfig) -> Ledger | None:
    """Return the ledger of a run that is trained and measured, which needs no trainer for that."""
    found = await asyncio.to_thread(find_ledger, open_store(config.store), config.model)
    if found is None:
        return None
    ledger = found[0].stop_early(config.patience, config.steps)
    if ledger.stopped_early != found[0].stopped_early:  # which the store has to learn
        return None
    plan = RunPlan.of(config, ledger)
    return None if ledger.next_step < plan.steps or plan.validations_left else ledger


async def announce_cost(config: TrainConfig, environment: Environment) -> None:
    """Log the forecast of what is left of a run to pay for, as far as there is one."""
    stored = await asyncio.to_thread(find_ledger, open_store(config.store), config.model)
    usd = stored[0].usd if stored else 0.0
    found = forecast(config, environment, stored[0].next_step if stored else 0)
    for ahead in found:
        _log.info("%s", ahead)
        usd += ahead.usd or 0.0
    for sentence in dict.fromkeys(sentence for ahead in found for sentence in ahead.warnings):
        _log.warning("%s", sentence)
    if config.budget_usd is not None and usd > config.budget_usd:
        budget = write_dollars(config.budget_usd)
        _log.warning("The budget of %s will not last to the last step.", budget)


def forecast(config: TrainConfig, environment: Environment, next_step: int) -> list[Estimate]:
    """Return the forecasts of what a teacher, judges and a service cost from a step on."""
    found = list(environment.forecasts(config, next_step))
    teacher = teacher_of(config)
    if teacher and environment.warm_start and next_step == 0:
        found.insert(0, forecast_teacher(teacher, environment, environment.warm_start.scenarios))
    return found


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
        dollars = f"about {write_dollars(usd)}"
        thinking_usd = len(scenarios) * price.of(Usage(0, spec.thinking_tokens))
    if thinking_usd:
        dollars += f", and up to {write_dollars(thinking_usd)} of thought"
    return Estimate(
        f"The teacher {spec.contender} will be asked for {len(scenarios)} "
        f"{environment.nouns.rollouts}, {dollars}, less what the store keeps.",
        usd,
    )
