"""From a summary to a verdict: one that was kept, or one that the judge is asked for."""

import hashlib
import json

from precis.benchmark.cache import ResultCache
from precis.config import JudgeConfig
from precis.environments.summaries.judge import JudgeClient, Scored, Unscored
from precis.environments.summaries.judge.forecast import forecast
from precis.errors import BudgetReached
from precis.llm.budget import Budget
from precis.records.documents import Document
from precis.records.verdict import Disqualified
from precis.task import Task

NOT_PROSE: Disqualified = "not_prose"


class BenchmarkJudge:
    """Rules on summaries as training does: what is disqualified scores zero unread.

    Args:
        judge: asked about what is neither disqualified nor known.
        config: how the judge is asked.
        task: what disqualifies a summary.
        budget: what may still be spent.
        kept: where verdicts are kept; None keeps none.
    """

    def __init__(
        self,
        judge: JudgeClient,
        config: JudgeConfig,
        task: Task,
        budget: Budget,
        kept: ResultCache | None,
    ) -> None:
        self._judge = judge
        self._config = config
        self._task = task
        self._budget = budget
        self._kept = kept

    async def find_kept(self, document: Document, text: str) -> Scored | None:
        """The verdict that takes no judge, or None."""
        if self._task.disqualify(text, document) not in (None, NOT_PROSE):
            return self._task.score_zero(document)
        return await self._recall(document, text)

    async def rule(
        self, document: Document, text: str
    ) -> tuple[Scored | Unscored, Disqualified | None]:
        """The verdict on a summary, and why it scores zero, if it does.

        The judge may say that it is no prose too, where it does not look so by measure.

        What is no prose is judged all the same, to say what it would have earned.

        Raises:
            JudgeError: the judge rejects the key, the model or the request as such.
            StoreError: the verdict can't be kept.
        """
        why = self._task.disqualify(text, document)
        if why not in (None, NOT_PROSE):
            return self._task.score_zero(document), why
        kept = await self._recall(document, text)
        if kept is not None:
            return kept, why or _judged(kept)
        try:
            async with self._budget.reserve(self._estimate_usd(document)):
                verdict = await self._judge.score(document, text)
        except BudgetReached as error:
            return Unscored("budget", str(error)), None
        if self._kept and isinstance(verdict, Scored):
            await self._kept.keep_verdict(self._key(document, text), verdict)
        return verdict, why or _judged(verdict)

    def prose_share(self, document: Document, text: str) -> float:
        """How far a summary is prose by measure, 0 to 1."""
        return self._task.prose_share(text, document)

    async def _recall(self, document: Document, text: str) -> Scored | None:
        return await self._kept.verdict(self._key(document, text)) if self._kept else None

    def _estimate_usd(self, document: Document) -> float:
        if not self._budget.is_limited:
            return 0.0
        model = self._judge.identity["model"]
        words = self._task.words_max
        ahead = forecast(
            self._config, model, [document], summaries=1, summary_words=words, ceiling=False
        )
        return ahead.usd or 0.0

    def _key(self, document: Document, text: str) -> str:
        asked = {**self._judge.identity, "effort": self._config.reasoning_effort}
        decisive = [asked, repr(document), text]
        return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()


def _judged(verdict: Scored | Unscored) -> Disqualified | None:
    is_prose = isinstance(verdict, Unscored) or verdict.is_prose
    return None if is_prose else "judged_not_prose"
