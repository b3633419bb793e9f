"""A summary, and what became of it: the same for a rollout, a validation and a contender."""

from dataclasses import dataclass
from typing import get_args

from precis.records.documents import Document
from precis.records.verdict import Disqualified, Scored, Verdict
from precis.text import count_words


@dataclass(frozen=True)
class Summary:
    """A summary, and what it took to write it.

    Attributes:
        finish: the completion's finish reason.
        usd: None where the price is not known.
        served_by: what the endpoint says that it is.
        written_at: seconds since the epoch.
    """

    text: str
    finish: str = "stop"
    seconds: float | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    usd: float | None = None
    served_by: str | None = None
    written_at: float | None = None


@dataclass(frozen=True)
class JudgedSummary:
    """A document's summary with its verdict.

    Attributes:
        summary: None where none was written; the verdict then says why.
        disqualified: why it scores zero, whatever the judge says; None where it doesn't.
        kept: whether an earlier benchmark has asked for the summary.
        second: a second judge's verdict; None where none was asked.
        prose: how far the summary is prose, 0 to 1: the share of its score that it keeps.
    """

    document: Document
    summary: Summary | None
    verdict: Verdict
    disqualified: Disqualified | None = None
    kept: bool = False
    second: Verdict | None = None
    prose: float = 1.0

    @property
    def text(self) -> str:
        """The summary's text; empty where there is none."""
        return self.summary.text if self.summary else ""

    @property
    def words(self) -> int:
        """How many words the summary has."""
        return count_words(self.text)

    @property
    def reward(self) -> float | None:
        """What the verdict gives, as far as the summary is prose; None where there is no score."""
        given = self.verdict.reward
        return None if given is None else self.prose * given

    @property
    def metrics(self) -> dict[str, float]:
        """What is known without a judge: its words, prose, and why it was disqualified."""
        metrics: dict[str, float] = {"words": self.words, "prose": self.prose}
        for cause in get_args(Disqualified):
            metrics[cause] = float(self.disqualified == cause)
        # What is no prose by measure was judged too, and the judge may agree.
        is_prose = not isinstance(self.verdict, Scored) or self.verdict.is_prose
        metrics["judged_not_prose"] = float(not is_prose)
        return metrics
