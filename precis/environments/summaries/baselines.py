"""Untrained summarizers, to compare a trained one with.

They answer the same chat requests as a policy, within the requested word limit; the `-350` in three
names is only a label.
"""

import hashlib
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from itertools import chain
from math import log, sqrt

import numpy as np

from precis.environments.summaries.prompt import request_in
from precis.environments.summaries.prose import commonest_words
from precis.errors import RolloutError
from precis.llm.server import ApiError, ChatRequest, Choice, Complete, Completion
from precis.text import count_words, pieces, sentences, tokens

USUAL_BASELINES = ("lead-350", "random-350", "centroid", "telegraph-350")
"""All but the empty summary, which scores zero without a judge."""
_REDUNDANCY = 0.5
"""The penalty of a sentence equal to a chosen one; relevance is at most 1."""


def baselines() -> dict[str, Complete]:
    """Return the baselines by model name, each for `precis.llm.server.completions_app`."""
    return {
        "empty": _complete_with(lambda text, words_max: ""),  # the floor of the scale
        "lead-350": _complete_with(lead),
        "random-350": _complete_with(random_sentences),
        "centroid": _complete_with(centroid),
        "telegraph-350": _complete_with(telegraph),
    }


def lead(text: str, words_max: int) -> str:
    """Return the first sentences, up to the first that does not fit."""
    chosen: list[str] = []
    left = words_max
    for sentence in sentences(text):
        left -= count_words(sentence)
        if left < 0:
            break
        chosen.append(sentence)
    return " ".join(chosen)


def random_sentences(text: str, words_max: int) -> str:
    """Return random sentences that fit, in document order, the same ones for the same text."""
    found = sentences(text)
    seed = hashlib.sha256(text.encode()).digest()
    chosen = []
    left = words_max
    for index in random.Random(seed).sample(range(len(found)), len(found)):
        words = count_words(found[index])
        if words <= left:
            chosen.append(index)
            left -= words
    return " ".join(found[index] for index in sorted(chosen))


def centroid(text: str, words_max: int) -> str:
    """Return the sentences nearest to the document's TF-IDF centroid that do not repeat each other:
    greedy maximal marginal relevance (Carbonell and Goldstein, 1998) with the centroid as the
    query; a sentence counts as a document for the inverse document frequency."""
    found = sentences(text)
    # One unit vector for each bag of tokens; a bag without rare tokens is a vector of zeros.
    bags = list(map(tokens, found))
    document_frequency = Counter(chain.from_iterable(map(set, bags)))
    units = []
    for bag in bags:
        weights = {}
        for word, count in Counter(bag).items():
            weights[word] = count * log(len(bags) / document_frequency[word])
        length = sqrt(_dot(weights, weights)) or 1.0
        for word in weights:
            weights[word] /= length
        units.append(weights)
    centre: defaultdict[str, float] = defaultdict(float)
    for unit in units:
        for word, weight in unit.items():
            centre[word] += weight
    length = sqrt(_dot(centre, centre)) or 1.0
    relevance = np.array([_dot(unit, centre) for unit in units])
    lengths = np.array(list(map(count_words, found)))
    nearest = np.zeros(len(found))
    waiting = np.ones(len(found), dtype=bool)
    picks: list[int] = []
    left = words_max
    while (fitting := waiting & (lengths <= left)).any():
        scores = np.where(fitting, relevance / length - _REDUNDANCY * nearest, -np.inf)
        best = int(scores.argmax())
        waiting[best] = False
        picks.append(best)
        left -= int(lengths[best])
        similar = [_dot(units[best], unit) for unit in units]
        nearest = np.maximum(nearest, similar)
    return " ".join(found[index] for index in sorted(picks))


def _dot(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    return sum(weight * other.get(word, 0.0) for word, weight in one.items())


def telegraph(text: str, words_max: int) -> str:
    """Return the first words without the document's commonest: a test of a judge that rewards mere
    words."""
    common = commonest_words(text)
    left = [word for word in pieces(text) if word.lower() not in common]
    return " ".join(left[:words_max])


def _complete_with(summarize: Callable[[str, int], str]) -> Complete:
    async def complete(asked: ChatRequest) -> Completion:
        try:
            request = request_in(asked.messages)
        except RolloutError as error:
            raise ApiError(400, str(error), "no_document") from error
        summary = summarize(request.text, request.words_max)
        return Completion(asked.model, [Choice(summary)] * asked.n)

    return complete
