"""The verdict of a judge on a summary. A missing score is a type, never a number."""

from dataclasses import dataclass
from typing import Literal

from precis.records.rollout import Unscored

__all__ = ["Answer", "Disqualified", "Scored", "Unscored", "Verdict"]

Disqualified = Literal["empty", "over_length", "wrong_script", "not_prose", "judged_not_prose"]
"""The reasons for which a summary scores zero: before any judge is asked or, the last, because the
judge says that it is no prose."""


@dataclass(frozen=True)
class Answer:
    """One question: what the judge could answer from the summary, and whether that is right."""

    question_id: str
    answer: str
    correct: bool
    answerable: bool


@dataclass(frozen=True)
class Scored:
    """A summary that was judged: one answer for each question of its document, in order.

    Attributes:
        is_prose: whether the judge takes it for prose; if not, it scores zero, whatever the
            accuracy. True where the judge was not asked.
    """

    answers: tuple[Answer, ...]
    is_prose: bool = True

    @property
    def asked(self) -> int:
        """The number of questions that the document can answer; only these earn reward."""
        return sum(answer.answerable for answer in self.answers)

    @property
    def correct(self) -> int:
        """The number of those that were answered correctly from the summary alone."""
        return sum(answer.correct for answer in self.answers if answer.answerable)

    @property
    def accuracy(self) -> float:
        """`correct / asked`; a document without answerable questions never gets this far."""
        return self.correct / self.asked


Verdict = Scored | Unscored
