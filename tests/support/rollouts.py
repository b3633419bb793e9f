"""A document, and judged rollouts of it."""

from dataclasses import replace

from openai.types.chat import ChatCompletionMessage
from openai.types.chat.chat_completion import Choice, ChoiceLogprobs

from precis.judge import Answer, Ranked, Scored, Unscored, Verdict
from precis.records.documents import Document, Question
from precis.records.summary import Summary
from precis.sampling.rollouts import Conversation, Rollout
from precis.summaries.prompt import summary_messages
from precis.summaries.rewards import score_zero

DOCUMENT = Document(
    "d7", "Local News", "The mayor opened it.", (Question("q", "Who?", "the mayor", True),)
)
MESSAGES = tuple(summary_messages(DOCUMENT.text))
RIGHT = Scored((Answer("q", "the mayor – “hers”", True, True),))


def choice(text: str) -> Choice:
    message = ChatCompletionMessage(role="assistant", content=text)
    logprobs = ChoiceLogprobs(content=[])
    return Choice(finish_reason="stop", index=0, message=message, logprobs=logprobs)


def rollout(index: int, text: str | None = "She did.") -> Rollout:
    if text is None:
        return Rollout(DOCUMENT, None, RIGHT, index=index, conversation=MESSAGES)
    summary = Summary(text, "stop", 1.5, 400, 30)
    conversation: Conversation = (*MESSAGES, choice(text))
    return Rollout(DOCUMENT, summary, RIGHT, index=index, conversation=conversation)


ROLLOUTS = [
    [
        rollout(0),
        replace(rollout(1), verdict=Unscored("rate_limited", "The judge is busy.")),
        replace(rollout(2, None), verdict=Unscored("generation_timeout", "Too late.")),
    ],
    [
        replace(rollout(0), verdict=score_zero(DOCUMENT), disqualified="over_length"),
        replace(rollout(1), verdict=Ranked(0.25), prose=0.5),
    ],
]


def scored(correct: bool) -> Scored:
    return Scored((Answer("q", "the mayor", correct, True),))


def rollouts(*verdicts: Verdict | bool) -> list[Rollout]:
    """A group of rollouts with these verdicts; a bool is a right or a wrong answer."""
    group = []
    for index, verdict in enumerate(verdicts):
        ruled = scored(verdict) if isinstance(verdict, bool) else verdict
        group.append(replace(rollout(index), verdict=ruled))
    return group
