"""The judge as a benchmark asks it: within its budget, and once for each summary in a store."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from precis.config import JudgeConfig
from precis.environments.summaries.judge.client import JudgeClient
from precis.environments.summaries.judge.forecast import forecast
from precis.llm.budget import PaidOnce
from precis.record import json_digest
from precis.records.documents import Document
from precis.records.spend import Estimate
from precis.records.verdict import Answer, Scored, Unscored


@dataclass(frozen=True)
class KeptVerdicts:
    """Verdicts that were paid for already, and new ones."""

    judge: JudgeClient
    config: JudgeConfig
    words_max: int
    paid: PaidOnce

    async def score(self, document: Document, summary: str) -> Scored | Unscored:
        """Return the verdict on a summary, or why there is none.

        Raises:
            JudgeError: the judge rejects the key, the model or the request as such.
            StoreError: the verdict can't be kept.
        """
        asked = {**self.judge.identity, "effort": self.config.reasoning_effort}

        def decode(record: Any) -> Scored:
            answers = tuple(Answer(**answer) for answer in record["answers"])
            return Scored(answers, record["is_prose"])

        def usd() -> float:
            ahead = self.forecast([document], 1) if self.paid.budget.is_limited else None
            return (ahead.usd or 0.0) if ahead else 0.0

        return await self.paid.ask(
            f"verdicts/{json_digest([asked, repr(document), summary])}",
            partial(self.judge.score, document, summary),
            usd,
            encode=asdict,
            decode=decode,
        )

    def forecast(self, documents: Sequence[Document], summaries: int) -> Estimate | None:
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
