"""The judge as a benchmark asks it: within its budget, and once for each summary in a store."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from precis.config import JudgeConfig
from precis.environments.summaries.judge.client import JudgeClient
from precis.environments.summaries.judge.forecast import forecast
from precis.errors import BudgetReached
from precis.llm.budget import Budget
from precis.llm.forecast import Forecast
from precis.records.documents import Document
from precis.records.verdict import Answer, Scored, Unscored
from precis.store.kept import KeptRecords


@dataclass(frozen=True)
class KeptVerdicts:
    """Verdicts that were paid for already, and new ones; a dry one asks nobody."""

    judge: JudgeClient
    config: JudgeConfig
    words_max: int
    kept: KeptRecords | None
    budget: Budget
    dry: bool = False

    async def score(self, document: Document, summary: str) -> Scored | Unscored:
        """Return the verdict on a summary, or why there is none.

        Raises:
            JudgeError: the judge rejects the key, the model or the request as such.
            StoreError: the verdict can't be kept.
        """
        asked = {**self.judge.identity, "effort": self.config.reasoning_effort}
        decisive = json.dumps([asked, repr(document), summary], sort_keys=True)
        key = f"verdicts/{hashlib.sha256(decisive.encode()).hexdigest()}"

        def decode(record: Any) -> Scored:
            answers = tuple(Answer(**answer) for answer in record["answers"])
            return Scored(answers, record["is_prose"])

        if self.kept:
            kept = await self.kept.get(key, decode)
            if kept is not None:
                return kept
        if self.dry:
            return Unscored("not_kept", "No earlier benchmark has asked for this verdict.")
        ahead = self.forecast([document], 1) if self.budget.is_limited else None
        dollars = (ahead.usd or 0.0) if ahead else 0.0
        try:
            async with self.budget.reserve(dollars):
                verdict = await self.judge.score(document, summary)
        except BudgetReached as error:
            return Unscored("budget", str(error))
        if self.kept and isinstance(verdict, Scored):
            await self.kept.put(key, asdict(verdict))
        return verdict

    def forecast(self, documents: Sequence[Document], summaries: int) -> Forecast | None:
        """Return what so many verdicts take; None where they cost nothing."""
        if self.config.provider == "lexical":
            return None
        return forecast(
            self.config,
            self.judge.identity["model"],
            documents,
            summaries=summaries,
            summary_words=self.words_max,
            ceiling=False,
        )
