"""A lexical judge for RULER: which attempt of a group is worth most, without golden answers. A fact
is a number, a name or a date."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from precis.environments.summaries.prompt import request_in
from precis.errors import RolloutError
from precis.rehearsal.judges.words import stem
from precis.text import sentences, tokens

_NAME = re.compile(r"(?<=[^\W_])[^\w.!?]*\s[\"\u201c\u2018(]?([A-Z][\w'\u2019-]+)")


def attempt_scores(data: Mapping[str, Any]) -> dict[str, Any]:
    """Score attempts (`precis.environments.ruler`) between 0 and 1: a summary by the share of its
    document's facts that it keeps, any other by the share of its words that came back after the
    first answer, which shows that everything runs."""
    scores = []
    for attempt in data["attempts"]:
        messages = [*data["shared"], *attempt["messages"]]
        try:
            asked = facts(request_in(messages).text)
            found = asked & _words([one for one in messages if one["role"] == "assistant"])
            said = f"{len(found)} of the document's {len(asked)} facts are kept."
        except RolloutError:
            roles = [message["role"] for message in messages]
            start = roles.index("assistant") if "assistant" in roles else len(roles)
            asked = frozenset(_words(messages[:start]))
            found = asked & _words([one for one in messages[start:] if one["role"] != "assistant"])
            said = f"{len(found)} of the task's {len(asked)} words came back."
        share = round(len(found) / max(1, len(asked)), 4)
        scores.append({"id": attempt["id"], "explanation": said, "score": share})
    return {"scores": scores}


@lru_cache(maxsize=64)
def facts(text: str) -> frozenset[str]:
    """Return the numbers of a text, and the words that it capitalizes in mid-sentence, as stems."""
    numbers = (token for token in tokens(text) if any(letter.isdigit() for letter in token))
    names = (name.lower() for sentence in sentences(text) for name in _NAME.findall(sentence))
    return frozenset(map(stem, (*numbers, *names)))


def _words(messages: Sequence[Mapping[str, Any]]) -> set[str]:
    return {stem(word) for one in messages for word in tokens(str(one.get("content", "")))}
