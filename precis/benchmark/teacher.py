"""Summaries of another model, each paid for once in a store."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from precis.benchmark.cache import ResultCache
from precis.benchmark.client import ContenderClient
from precis.benchmark.contender import ContenderSpec, hosted_contender
from precis.benchmark.forecast import summary_usd, thinking_usd
from precis.config import ContenderConfig, TrainConfig
from precis.environment import Environment
from precis.environments.summaries.task import Summarizing
from precis.environments.summaries.warm_start.demonstrations import Demonstration
from precis.errors import BudgetReached, ConfigError, RolloutError
from precis.llm.budget import Budget
from precis.llm.concurrency import run_together
from precis.records.documents import Document
from precis.records.verdict import Unscored
from precis.store import Store


class Teacher:
    """The model that shows how to summarize.

    Args:
        keys: those that are set, by the name of their variable.
        task: what it is asked.
        unwritten_share_max: share of a batch that may fail before the batch fails.

    Raises:
        ConfigError: its key is not set.
    """

    def __init__(
        self,
        config: ContenderConfig,
        keys: Mapping[str, str],
        task: Summarizing,
        unwritten_share_max: float,
    ) -> None:
        try:
            self.spec: ContenderSpec = hosted_contender(config, keys, task.tokens_max)
        except ConfigError as error:
            raise ConfigError(f"warm_start.teacher: {error}") from error
        self._task = task
        self._unwritten_share_max = unwritten_share_max

    async def write(
        self, documents: Sequence[Document], store: Store, budget: Budget
    ) -> list[Demonstration]:
        """A summary of each document, those first that the store keeps.

        A summary that would earn nothing unread is left out.

        Raises:
            BudgetReached: the next one might lead past the budget; what was paid for is kept.
            RolloutError: too many were not written.
            StoreError: a summary can't be kept.
        """
        cache = ResultCache(store)
        try:
            await cache.open()
            async with ContenderClient(self.spec, self._task, budget, cache) as client:
                return await self._write_all(client, documents)
        finally:
            cache.close()

    async def _write_all(
        self, client: ContenderClient, documents: Sequence[Document]
    ) -> list[Demonstration]:
        failures: list[Unscored] = []

        async def write(document: Document) -> Demonstration:
            written = await client.find_kept(document) or await client.write(document)
            if isinstance(written, Unscored):
                failures.append(written)
                return Demonstration(document_id=document.id, cause=written.cause)
            why = self._task.disqualify(written.text, document)
            return Demonstration(document_id=document.id, summary=written.text, cause=why or "")

        demonstrations = await run_together([partial(write, document) for document in documents])
        self._refuse_too_many(failures, len(documents))
        return demonstrations

    def _refuse_too_many(self, failures: Sequence[Unscored], asked: int) -> None:
        for failure in failures:
            if failure.cause == "budget":
                raise BudgetReached(
                    f"The next summary of the teacher {self.spec.contender} might lead past "
                    "budget_usd; what it has written is kept.",
                    "Raise budget_usd and start the run again to continue.",
                )
        if len(failures) > self._unwritten_share_max * asked:
            causes = dict(Counter(failure.cause for failure in failures))
            raise RolloutError(
                f"The teacher {self.spec.contender} wrote only {asked - len(failures)} of {asked} "
                f"summaries ({causes}). The first failure: {failures[0].detail}"
            )


def teacher_of(config: TrainConfig, task: Summarizing) -> Teacher | None:
    """The teacher of a run, with its key from the environment; None where it has none.

    Raises:
        ConfigError: its key is not set.
    """
    warm_start = config.warm_start
    if warm_start is None or warm_start.teacher is None:
        return None
    rollouts = config.rollouts
    keys = Environment().keys()
    return Teacher(warm_start.teacher, keys, task, rollouts.unscored_share_max)


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
    spec: ContenderSpec, documents: Sequence[Document], task: Summarizing
) -> TeacherForecast:
    """What asking the teacher for a summary of each document will take."""
    usd = None
    if spec.price is not None:
        usd = sum(summary_usd(spec, document, task) for document in documents)
    thinking = thinking_usd(spec) * len(documents)
    return TeacherForecast(str(spec.contender), len(documents), usd, thinking)
