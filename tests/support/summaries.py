"""A summary with its verdict as a contender's rollout, and its rows of results."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, get_args

import polars as pl

from precis.environments.summaries.prompt import scenario_of
from precis.environments.summaries.show import questions_about
from precis.records import questions, results
from precis.records.documents import Document, Question
from precis.records.nouns import Figure
from precis.records.results import Provenance, Row
from precis.records.rollout import Call, Rollout, Score, Unscored
from precis.records.spend import Usage
from precis.records.verdict import Disqualified, Scored, Verdict
from precis.text import count_words

ACCURACY = Figure("accuracy", "correct", "asked", is_share=True)


@dataclass(frozen=True)
class Summary:
    """What a contender wrote."""

    text: str
    finish: str = "stop"
    seconds: float = 0.0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    usd: float | None = None
    served_by: str = ""


DOCUMENT = Document(
    id="d1",
    topic="Local News",
    text="The bridge opened in May.",
    questions=(
        Question("q1", "When did the bridge open?", "In May", answerable=True),
        Question("q2", "Who paid?", "UNANSWERABLE", answerable=False),
    ),
)
SUMMARY = Summary("The bridge opened in May.", seconds=0.5, prompt_tokens=40, usd=0.001)


@dataclass(frozen=True)
class JudgedSummary:
    """A summary with its verdict."""

    document: Document
    summary: Summary | None
    verdict: Verdict
    disqualified: Disqualified | None = None
    kept: bool = False
    prose: float = 1.0

    @property
    def rollout(self) -> Rollout:
        """The contender's rollout."""
        calls = []
        if self.summary is not None:
            one = self.summary
            message = {"role": "assistant", "content": one.text}
            usage = Usage(one.prompt_tokens, one.completion_tokens)
            choice: dict[str, Any] = {"finish_reason": one.finish, "message": message}
            call = Call(
                (), choice, usage=usage, usd=one.usd, seconds=one.seconds, served_by=one.served_by
            )
            calls.append(call)
        return Rollout(scenario_of(self.document), 0, tuple(calls), self._score)

    @property
    def _score(self) -> Score | Unscored:
        verdict = self.verdict
        if not isinstance(verdict, Scored):
            assert isinstance(verdict, Unscored)
            return verdict
        others = [one for one in verdict.answers if not one.answerable]
        metrics = {
            "words": float(count_words(self.summary.text if self.summary else "")),
            "prose": self.prose,
            **{cause: float(cause == self.disqualified) for cause in get_args(Disqualified)},
            "judged_not_prose": float(not verdict.is_prose),
            "correct": self.prose * verdict.correct,
            "asked": float(verdict.asked),
            "answered": float(verdict.correct),
            "unanswerable": float(len(others)),
            "declined": float(sum(one.correct for one in others)),
        }
        details = {"answers": list(map(asdict, verdict.answers)), "disqualified": self.disqualified}
        return Score(self.prose * verdict.accuracy, None, metrics, details)


def row_of(judged: JudgedSummary, provenance: Provenance) -> Row:
    """Its row of results."""
    rollout = judged.rollout
    topic = judged.document.topic
    return results.row_of(
        rollout, provenance, ACCURACY, text=rollout.text, topic=topic, kept=judged.kept
    )


def questions_of(judged: Sequence[JudgedSummary], provenance: Provenance) -> pl.DataFrame:
    """What some summaries were asked."""
    asked = []
    for one in judged:
        rollout = one.rollout
        asked.append((rollout.scenario.id, questions_about(rollout)))
    return questions.questions_of(asked, provenance)


def provenance(model: str = "trained", step: int | None = 3) -> Provenance:
    return Provenance("run-1", model, step, "lexical-judge", "batched/1", "p0", "c0", "0.1.0")
