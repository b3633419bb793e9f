"""Summarizers that nobody trained, to compare a trained one with.

Each answers the same chat requests as a policy does and keeps to the word limit that the
request names. The `-350` in two names is the conventional label of such baselines.
"""

import hashlib
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from math import log

import numpy as np
import numpy.typing as npt

from precis.completions import ApiError, ChatRequest, Choice, Complete, Completion
from precis.errors import RolloutError
from precis.summarize import request_in
from precis.text import count_words, sentences, tokens

Order = Callable[[Sequence[str]], Iterable[int]]
Floats = npt.NDArray[np.float64]

_REDUNDANCY = 0.5
"""How much a sentence loses by being just like one already chosen; relevance is at most 1."""


def baselines() -> dict[str, Complete]:
    """The baselines by model name, each for `precis.completions.completions_app`."""
    return {
        "empty": _service(nothing),
        "lead-350": _service(lead),
        "random-350": _service(shuffled),
        "centroid": _service(central),
    }


def nothing(text: str, words_max: int) -> str:
    """No summary at all: what a judge can answer without one, and so the floor of the scale."""
    return ""


def lead(text: str, words_max: int) -> str:
    """The first sentences, up to the first that does not fit."""
    chosen: list[str] = []
    left = words_max
    for sentence in sentences(text):
        left -= count_words(sentence)
        if left < 0:
            break
        chosen.append(sentence)
    return " ".join(chosen)


def shuffled(text: str, words_max: int) -> str:
    """Random sentences in document order; the same text always gives the same ones."""
    seed = hashlib.sha256(text.encode()).digest()

    def order(found: Sequence[str]) -> list[int]:
        return random.Random(seed).sample(range(len(found)), len(found))

    return _filled(text, words_max, order)


def central(text: str, words_max: int) -> str:
    """The sentences nearest to the document's TF-IDF centroid that do not repeat each other.

    Greedy maximal marginal relevance (Carbonell and Goldstein, 1998) with the centroid as the
    query; a sentence counts as a document for the inverse document frequency.
    """
    return _filled(text, words_max, _central_order)


def _service(summarize: Callable[[str, int], str]) -> Complete:
    async def complete(asked: ChatRequest) -> Completion:
        try:
            request = request_in(asked.messages)
        except RolloutError as error:
            raise ApiError(400, str(error), "no_document") from error
        summary = summarize(request.text, request.words_max)
        return Completion(asked.model, [Choice(summary)] * asked.n)

    return complete


def _filled(text: str, words_max: int, order: Order) -> str:
    """Take sentences in an order while they fit, and put them back in the document's."""
    found = sentences(text)
    chosen, left = [], words_max
    for index in order(found):
        words = count_words(found[index])
        if words <= left:
            chosen.append(index)
            left -= words
    return " ".join(found[index] for index in sorted(chosen))


def _central_order(found: Sequence[str]) -> Iterable[int]:
    vectors = _tf_idf([tokens(sentence) for sentence in found])
    relevance = vectors @ _unit(vectors.sum(axis=0, keepdims=True))[0]
    nearest = np.zeros(len(found))
    waiting = np.ones(len(found), dtype=bool)
    for _ in found:
        scores = np.where(waiting, relevance - _REDUNDANCY * nearest, -np.inf)
        best = int(scores.argmax())
        waiting[best] = False
        nearest = np.maximum(nearest, vectors @ vectors[best])
        yield best


def _tf_idf(bags: Sequence[Sequence[str]]) -> Floats:
    """One unit row for each bag of tokens; a bag without tokens is a row of zeros."""
    document_frequency = Counter(token for bag in bags for token in set(bag))
    column = {token: index for index, token in enumerate(document_frequency)}
    matrix = np.zeros((len(bags), len(column)))
    for row, bag in enumerate(bags):
        for token, count in Counter(bag).items():
            matrix[row, column[token]] = count * log(len(bags) / document_frequency[token])
    return _unit(matrix)


def _unit(rows: Floats) -> Floats:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1.0)
