"""Summarizing: the prompt, its limits, and what can be said of a summary without a judge."""

from dataclasses import asdict, dataclass

from precis.environments.summaries.prompt import summary_messages, summary_tokens_max
from precis.environments.summaries.prose import prose_share
from precis.environments.summaries.rewards import disqualify, reward_share, score_zero
from precis.records.documents import Document
from precis.records.rollout import Scenario
from precis.records.verdict import Disqualified, Scored


@dataclass(frozen=True)
class Summarizing:
    """The task of keeping a document's facts in so many words.

    Attributes:
        length_ramp: see `RolloutsConfig.length_ramp`.
    """

    words_max: int
    length_ramp: float = 0.0

    @property
    def tokens_max(self) -> int:
        """See `summary_tokens_max`."""
        return summary_tokens_max(self.words_max)

    def messages(self, document: Document) -> list[dict[str, str]]:
        """See `summary_messages`."""
        return summary_messages(document.text, self.words_max)

    def disqualify(self, answer: str, document: Document) -> Disqualified | None:
        """See `precis.environments.summaries.rewards.disqualify`."""
        return disqualify(answer, document, self.words_max)

    def prose_share(self, answer: str, document: Document) -> float:
        """See `precis.environments.summaries.prose.prose_share`."""
        return prose_share(answer, document.text)

    def reward_share(self, answer: str) -> float:
        """See `precis.environments.summaries.rewards.reward_share`."""
        return reward_share(answer, self.words_max, self.length_ramp)

    def score_zero(self, document: Document) -> Scored:
        """See `precis.environments.summaries.rewards.score_zero`."""
        return score_zero(document)


def scenario_of(document: Document) -> Scenario:
    """Return a document as the start of a group."""
    questions = list(map(asdict, document.questions))
    data = {"topic": document.topic, "text": document.text, "questions": questions}
    return Scenario(document.id, data)
