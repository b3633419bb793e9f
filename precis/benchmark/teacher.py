"""Summaries of another model, each paid for once in a store."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from precis.benchmark.client import ContenderClient
from precis.benchmark.contender import ContenderSpec, hosted_contender
from precis.benchmark.measure import measure
from precis.config import ContenderConfig, RolloutsConfig, TrainConfig
from precis.environment import Environment as Variables
from precis.environments.protocol import Environment
from precis.environments.recorder import Recorder
from precis.environments.summaries.environment import UNJUDGED
from precis.environments.summaries.task import Summarizing
from precis.environments.summaries.warm_start.demonstrations import Demonstration
from precis.errors import BudgetReached, ConfigError, RolloutError
from precis.llm.budget import Budget
from precis.llm.tokens import estimate_tokens
from precis.records.documents import Document
from precis.records.rollout import Scenario, Score, Unscored
from precis.records.spend import Usage
from precis.store import Store
from precis.store.kept import KeptRecords

_WORDS_PER_TOKEN = 0.75
"""Of English prose; the usual rule for the tokenizers of hosted models."""


class Teacher:
    """The model that shows how to summarize.

    Args:
        keys: those that are set, by the name of their variable.
        rollouts: the limits of a summary, and the share of a batch that may fail before the batch
            fails.

    Raises:
        ConfigError: its key is not set.
    """

    def __init__(
        self, config: ContenderConfig, keys: Mapping[str, str], rollouts: RolloutsConfig
    ) -> None:
        try:
            self.spec: ContenderSpec = hosted_contender(config, keys)
        except ConfigError as error:
            raise ConfigError(f"warm_start.teacher: {error}") from error
        self._rollouts = rollouts

    async def write(
        self,
        environment: Environment,
        scenarios: Sequence[Scenario],
        recorder: Recorder,
        store: Store,
        budget: Budget,
    ) -> list[Demonstration]:
        """A summary of each document, those first that the store keeps.

        A summary that would earn nothing unread is left out.

        Args:
            environment: the summaries, with nobody to judge them.

        Raises:
            BudgetReached: the next one might lead past the budget; what was paid for is kept.
            RolloutError: too many were not written.
            StoreError: a summary can't be kept.
        """
        kept = KeptRecords(store)
        try:
            await kept.open()
            async with ContenderClient(self.spec, self._rollouts, budget, kept) as client:
                attempts = await measure(recorder, client, environment, scenarios)
        finally:
            kept.close()
        failures: list[Unscored] = []
        demonstrations = []
        for attempt in attempts:
            rollout = attempt.rollout
            score = rollout.score
            name = rollout.scenario.id
            if isinstance(score, Unscored) and score.cause != UNJUDGED:
                failures.append(score)
                demonstrations.append(Demonstration(document_id=name, cause=score.cause))
                continue
            why = score.details["disqualified"] if isinstance(score, Score) else ""
            demonstrations.append(
                Demonstration(document_id=name, summary=rollout.text, cause=why or "")
            )
        self._refuse_too_many(failures, len(scenarios))
        return demonstrations

    def _refuse_too_many(self, failures: Sequence[Unscored], asked: int) -> None:
        for failure in failures:
            if failure.cause == "budget":
                raise BudgetReached(
                    f"The next summary of the teacher {self.spec.contender} might lead past "
                    "budget_usd; what it has written is kept.",
                    "Raise budget_usd and start the run again to continue.",
                )
        if len(failures) > self._rollouts.unscored_share_max * asked:
            causes = dict(Counter(failure.cause for failure in failures))
            raise RolloutError(
                f"The teacher {self.spec.contender} wrote only {asked - len(failures)} of {asked} "
                f"summaries ({causes}). The first failure: {failures[0].detail}"
            )


def teacher_of(config: TrainConfig) -> Teacher | None:
    """The teacher of a run, with its key from the environment; None where it has none.

    Raises:
        ConfigError: its key is not set.
    """
    warm_start = config.warm_start
    if warm_start is None or warm_start.teacher is None:
        return None
    return Teacher(warm_start.teacher, Variables().keys(), config.rollouts)


@dataclass(frozen=True)
class TeacherForecast:
    """An estimate of what a teacher will take.

    Attributes:
        summaries: that it will be asked for.
        usd: dollars, without what it thinks; None where its price is unknown.
        thinking_usd: what its thoughts may cost at most.
    """

    teacher: str
    summaries: int
    usd: float | None
    thinking_usd: float

    def __str__(self) -> str:
        dollars = "at an unknown price" if self.usd is None else f"about ${self.usd:,.2f}"
        if self.thinking_usd:
            dollars += f", and up to ${self.thinking_usd:,.2f} of thought"
        return (
            f"The teacher {self.teacher} will be asked for {self.summaries} summaries, {dollars}, "
            "less those that the store keeps."
        )


def forecast_teacher(
    spec: ContenderSpec, documents: Sequence[Document], rollouts: RolloutsConfig
) -> TeacherForecast:
    """What asking the teacher for a summary of each document will take."""
    task = Summarizing(rollouts.words_max)
    price = spec.price
    settings = spec.settings
    usd: float | None = None
    thinking_usd = 0.0
    if price is not None:
        usd = 0.0
        for document in documents:
            sent = sum(len(message["content"]) for message in task.messages(document))
            completion_tokens = int(task.words_max / _WORDS_PER_TOKEN)
            usd += price.of(Usage(round(estimate_tokens(sent)), completion_tokens))
        if settings.reasoning:
            thinking_usd = len(documents) * price.of(Usage(0, settings.thinking_tokens_max))
    return TeacherForecast(str(spec.contender), len(documents), usd, thinking_usd)
