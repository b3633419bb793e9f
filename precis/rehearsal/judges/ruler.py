"""A lexical judge for RULER: which summary of a group keeps more of its document's facts.

It stands in for a hosted judge and knows no golden answers. A fact is a number, a name or a date
of the document; a summary is worth the share of them that it keeps. The messages are those of
ART's `art.rewards.ruler`, and the reply is its `Response`.
"""

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from precis.environments.summaries.prompt import request_in
from precis.errors import RolloutError
from precis.rehearsal.judges.words import stem
from precis.text import sentences, tokens

# Both blocks hold one line of JSON, so no text inside can end them early.
_CONTEXT = re.compile(r"^<context>\n(.+)\n</context>$", re.MULTILINE)
_TRAJECTORY = re.compile(r'^<trajectory id="(\d+)">\n(.+)\n</trajectory>$', re.MULTILINE)
_NAME = re.compile(r"(?<=[^\W_])[^\w.!?]*\s[\"\u201c\u2018(]?([A-Z][\w'\u2019-]+)")


def ruler_scores(messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Score each trajectory of a RULER request between 0 and 1.

    Args:
        messages: as `art.rewards.ruler` sends them; each trajectory, with the common context
            before it, is a request for a summary and the summary.

    Returns:
        `{"scores": [{"trajectory_id": …, "explanation": …, "score": …}]}`, in their order.

    Raises:
        RolloutError: the messages hold no trajectories, or no document to compare them with.
    """
    content = str(messages[-1].get("content"))
    trajectories = _TRAJECTORY.findall(content)
    if not trajectories:
        raise RolloutError(
            "No trajectories found in the messages: the lexical judge's RULER expects them as "
            "art.rewards.ruler_score_group sends them."
        )
    context = _CONTEXT.search(content)
    prefix = json.loads(context.group(1)) if context else []
    return {"scores": [_score(id, prefix + json.loads(rest)) for id, rest in trajectories]}


def attempt_scores(data: Mapping[str, Any]) -> dict[str, Any]:
    """Score an agent's attempts, of whose task nothing is known (`precis.environments.ruler`).

    An attempt is worth the share of its task's words that came back after its first answer, from
    tools or whoever else spoke: a search that hits earns more than one that finds nothing. It is no
    measure of a game, and shows that everything runs.
    """
    scores = []
    for attempt in data["attempts"]:
        messages = [*data["shared"], *attempt["messages"]]
        roles = [message["role"] for message in messages]
        start = roles.index("assistant") if "assistant" in roles else len(roles)
        asked = _words(messages[:start])
        found = asked & _words([one for one in messages[start:] if one["role"] != "assistant"])
        score = {
            "id": attempt["id"],
            "explanation": f"{len(found)} of the task's {len(asked)} words came back.",
            "score": round(len(found) / max(1, len(asked)), 4),
        }
        scores.append(score)
    return {"scores": scores}


def _words(messages: Sequence[Mapping[str, Any]]) -> set[str]:
    return {stem(word) for one in messages for word in tokens(str(one.get("content", "")))}


@lru_cache(maxsize=64)
def facts(text: str) -> frozenset[str]:
    """Return the numbers of a text, and the words that it capitalizes in mid-sentence, as stems."""
    numbers = (token for token in tokens(text) if any(letter.isdigit() for letter in token))
    names = (name.lower() for sentence in sentences(text) for name in _NAME.findall(sentence))
    return frozenset(map(stem, (*numbers, *names)))


def _score(id: str, trajectory: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    wanted = facts(request_in(trajectory).text)
    answers = [str(message["content"]) for message in trajectory if message["role"] == "assistant"]
    kept = wanted & set(map(stem, tokens(" ".join(answers))))
    return {
        "trajectory_id": id,
        "explanation": f"{len(kept)} of the document's {len(wanted)} facts are kept.",
        "score": round(len(kept) / max(1, len(wanted)), 4),
    }
