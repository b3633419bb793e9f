"""The verdict of a judge on a summary. A missing score is a type, never a number."""

from dataclasses import dataclass
from typing import Literal

from precis.records.rollout import Unscored

__all__ = ["Answer", "Disqualified", "Scored", "Unscored", "Verdict"]

Disqualified = Literal["empty", "over_length", "wrong_script", "not_prose", "judged_not_prose"]
"""The reasons for a summary's zero: before any judge or, the last, by the judge's ruling that it is
not prose."""


@dataclass(frozen=True)
class Answer:
    """The judge's answer to one question from the summary, and whether it is right."""

    question_id: str
    answer: str
    correct: bool
    answerable: bool


@dataclass(frozen=True)
class Scored:
    """A judged summary: one answer for each question of its document, in order.

    Attributes:
        is_prose: whether the judge rules it prose; if not, it scores zero, whatever the accuracy.
            True if the judge was not asked.
    """

    answers: tuple[Answer, ...]
    is_prose: bool = True

    @property
    def asked(self) -> int:
        """The number of questions answerable from the document; only these earn reward."""
        return sum(answer.answerable for answer in self.answers)

    @property
    def correct(self) -> int:
        """The number of those answered correctly from the summary alone."""
        return sum(answer.correct for answer in self.answers if answer.answerable)

    @property
    def accuracy(self) -> float:
        """`correct / asked`; a document without answerable questions never gets this far."""
        return self.correct / self.asked


Verdict = Scored | Unscored
