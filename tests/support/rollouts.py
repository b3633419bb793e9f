"""A document, and scored rollouts of it."""

import json
from dataclasses import asdict
from typing import Any

from precis.environments.summaries.judge import Answer, Scored
from precis.environments.summaries.prompt import scenario_of, summary_messages
from precis.records.documents import Document, Question
from precis.records.rollout import Call, Rollout, Score, Unscored
from precis.records.spend import Usage

DOCUMENT = Document(
    "d7", "Local News", "The mayor opened it.", (Question("q", "Who?", "the mayor", True),)
)
SCENARIO = scenario_of(DOCUMENT)
MESSAGES = tuple(summary_messages(DOCUMENT.text))
RIGHT = Scored((Answer("q", "the mayor – “hers”", True, True),))


def call(text: str, tokens: tuple[int, ...] = (3, 1)) -> Call:
    choice = {
        "index": 0,
        "finish_reason": "stop",
        "message": {"role": "assistant", "content": text},
    }
    return Call(
        MESSAGES,
        choice,
        token_ids=tokens,
        logprobs=tuple(-0.5 for _ in tokens),
        usage=Usage(400, 30),
        seconds=1.5,
        asked_at=1_800_000_000.0,
    )


def calling(tool: str, arguments: object, id: str = "1") -> dict[str, Any]:
    """The message that calls a tool; a text of arguments stays as it is."""
    given = arguments if isinstance(arguments, str) else json.dumps(arguments)
    called = {"id": id, "type": "function", "function": {"name": tool, "arguments": given}}
    return {"role": "assistant", "content": None, "tool_calls": [called]}


def score_of(verdict: Scored, words: float = 2) -> Score:
    """What summaries make of a verdict."""
    metrics = {"words": words, "prose": 1.0, "correct": verdict.correct, "asked": verdict.asked}
    details = {"answers": list(map(asdict, verdict.answers)), "disqualified": None}
    return Score(verdict.accuracy, None, metrics, details)


def rollout(
    index: int = 0, score: Score | Unscored | None = None, text: str | None = "She did."
) -> Rollout:
    calls = () if text is None else (call(text),)
    return Rollout(SCENARIO, index, calls, score_of(RIGHT) if score is None else score)


def scored(correct: bool) -> Scored:
    return Scored((Answer("q", "the mayor", correct, True),))


def rollouts(*scores: Score | Unscored | bool) -> list[Rollout]:
    """A group of rollouts with these scores; a bool is a right or a wrong answer."""
    group = []
    for index, score in enumerate(scores):
        given = score_of(scored(score)) if isinstance(score, bool) else score
        group.append(rollout(index, given))
    return group


ROLLOUTS = [
    [
        rollout(0),
        rollout(1, Unscored("rate_limited", "The judge is busy.")),
        rollout(2, Unscored("generation_timeout", "Too late."), text=None),
    ],
    [rollout(0, Score(0.0, False, {"over_length": 1.0})), rollout(1, Score(0.25, True))],
]
