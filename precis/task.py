"""What a policy is trained to do: all that sampling, benchmark and observers know of it.

Summarizing is the one task that there is. Whoever samples or measures is given a `Task`; only
`task_of` says which one that is.
"""

from typing import Protocol

from precis.config import RolloutsConfig
from precis.environments.summaries.task import Summarizing
from precis.records.documents import Document
from precis.records.verdict import Disqualified, Scored


class Task(Protocol):
    """What is asked about a document, and what can be said of an answer without a judge."""

    @property
    def words_max(self) -> int:
        """The longest answer that can earn a reward, in words."""

    @property
    def tokens_max(self) -> int:
        """The completion tokens to allow an answer."""

    def messages(self, document: Document) -> list[dict[str, str]]:
        """The chat messages that a conversation about a document opens with."""

    def disqualify(self, answer: str, document: Document) -> Disqualified | None:
        """Why an answer scores zero before any judge is asked, or None."""

    def prose_share(self, answer: str, document: Document) -> float:
        """How far an answer is prose, 0 to 1."""

    def reward_share(self, answer: str) -> float:
        """What of its reward an answer keeps in training, 0 to 1."""

    def score_zero(self, document: Document) -> Scored:
        """The verdict on a disqualified answer."""


def task_of(rollouts: RolloutsConfig) -> Task:
    """The task that a run trains for, or that a benchmark measures."""
    return Summarizing(rollouts.words_max, rollouts.length_ramp)
