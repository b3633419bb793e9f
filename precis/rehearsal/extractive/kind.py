"""The policy kind that picks sentences, and its samples: its own picks, or those shown by another's
summary.

Each sentence has a linear score. A pick is drawn from the softmax of the scores of the unpicked
sentences that still fit, until the budget is full (Plackett–Luce).
"""

import random
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from precis.environments.summaries.prompt import request_in
from precis.errors import RolloutError, TrainerError
from precis.llm.server import ApiError, ChatRequest, Choice
from precis.records.samples import tokens_of
from precis.rehearsal.endpoint import generator_of, logprob_entries
from precis.rehearsal.extractive.features import FEATURES_VERSION, NAMES, Features, featurize
from precis.rehearsal.grpo import pick_logprobs
from precis.rehearsal.kind import Batch, Bools, Floats, Integers, Layout, LinearPolicy, Trajectory
from precis.text import tokens

Grams = Counter[tuple[str, ...]]

_START_MAX = 60
_ENDS = '.!?…。！？؟۔।"”’)」』'


def scores(policy: LinearPolicy, features: Features) -> Floats:
    """Return the score of each sentence, shape (sentences,)."""
    found: Floats = np.einsum("sf,f->s", features.matrix, policy.weights)
    return found


def pick(
    policy: LinearPolicy,
    features: Features,
    words_max: int,
    temperature: float,
    generator: np.random.Generator,
) -> tuple[int, ...]:
    """Return the indices of the picked sentences, in picking order; temperature 0 picks the best.
    Adding Gumbel noise to the scores and sorting once is equivalent to picking one by one from the
    softmax (Kool et al. 2019, https://arxiv.org/abs/1903.06059)."""
    keys = scores(policy, features)
    if temperature > 0:
        order = np.argsort(-(keys / temperature + generator.gumbel(size=len(keys))), kind="stable")
    else:
        order = policy.rank(keys, features.sentences)
    picks = []
    left = words_max
    for index, words in zip(order.tolist(), features.words[order].tolist(), strict=True):
        if words <= left:
            picks.append(index)
            left -= words
    return tuple(picks)


def logprobs(
    policy: LinearPolicy, features: Features, picks: Sequence[int], words_max: int
) -> Floats:
    """Return the log-probability of each pick at temperature 1, given the previous picks."""
    if not picks:
        return np.zeros(0)
    at = np.array([picks])
    masks = candidates(features.words, picks, words_max)[None]
    found: Floats = pick_logprobs(scores(policy, features)[None], masks, at).of_picks[0]
    return found


def summary(features: Features, picks: Sequence[int]) -> str:
    """Return the picked sentences in document order; headings and list items keep their line."""
    text = ""
    for index in sorted(picks):
        if text:
            text += " " if text[-1] in _ENDS else "\n"
        text += features.sentences[index]
    return text


@dataclass(frozen=True, eq=False)
class PickedSample:
    """One sampled summary: its picks in order, and their log probabilities under the sampling
    policy."""

    features: Features
    words_max: int
    picks: tuple[int, ...]
    logprobs: tuple[float, ...]
    reward: float

    @property
    def order(self) -> tuple[tuple[str, ...], tuple[int, ...], float]:
        return self.features.sentences, self.picks, self.reward


@dataclass(frozen=True, eq=False, kw_only=True)
class PickBatch(Batch):
    """A batch of summaries; `matrix` has their features, shape (samples, sentences, features)."""

    matrix: Floats

    def scores(self, weights: Floats) -> Floats:
        scores: Floats = np.einsum("nsf,f->ns", self.matrix, weights)
        return scores

    def gradient(self, by_score: Floats) -> Floats:
        gradient: Floats = np.einsum("ns,nsf->f", by_score, self.matrix)
        return gradient


def candidates(words: Integers, picks: Sequence[int], words_max: int) -> Bools:
    """Return the mask of the candidates of each pick, unpicked and still fitting: (picks,
    sentences)."""
    at = np.array(picks, dtype=np.int64)
    turn = np.arange(len(at))
    picked_at = np.full(len(words), len(at))
    picked_at[at] = turn
    left = words_max - np.append(0, np.cumsum(words[at])[:-1])
    return (words[None, :] <= left[:, None]) & (picked_at[None, :] >= turn[:, None])


class SentencePicks:
    """Answers requests for summaries with sentences of the document; each is a token."""

    layout = Layout("sentences", FEATURES_VERSION, len(NAMES), NAMES)

    def answer(self, policy: LinearPolicy, asked: ChatRequest) -> list[Choice]:
        try:
            request = request_in(asked.messages)
        except RolloutError as error:
            raise ApiError(400, str(error), "no_document") from error
        features = featurize(request.text)
        generator = generator_of(asked)
        choices = []
        for _ in range(asked.n):
            picks = pick(policy, features, request.words_max, asked.temperature, generator)
            kept = picks
            words = asked.max_completion_tokens or asked.max_tokens
            if words is not None:  # a word is a token
                spent = np.cumsum(features.words[list(picks)])
                kept = picks[: int(np.searchsorted(spent, words, side="right"))]
            entries: list[dict[str, Any]] | None = None
            if asked.logprobs:
                values = logprobs(policy, features, kept, request.words_max).tolist()
                entries = logprob_entries(kept, values)
            choice = Choice(
                summary(features, kept),
                "length" if len(kept) < len(picks) else "stop",
                entries,
                int(features.words[list(kept)].sum()),
                token_ids=list(kept) if asked.return_token_ids else None,
            )
            choices.append(choice)
        return choices

    def samples_of(self, trajectory: Trajectory) -> list[PickedSample]:
        """Return the sample of a trajectory's last choice."""
        from openai.types.chat.chat_completion import Choice  # half a second to import

        items = trajectory.messages_and_choices
        choice = items[-1] if items else None
        if not isinstance(choice, Choice):
            raise TrainerError(
                "A trajectory has no choice to learn from at its end: append the completion's "
                "choice itself to messages_and_choices, not its text."
            )
        request = request_in([one for one in items[:-1] if isinstance(one, Mapping)])
        features = featurize(request.text)
        sampled = tokens_of(choice)
        picks = tuple(sampled.token_ids)
        known = set(range(len(features.words)))
        fits = set(picks) <= known and int(features.words[list(picks)].sum()) <= request.words_max
        if not fits or len(set(picks)) < len(picks):
            raise TrainerError(
                f"The sentence ids {list(picks)} can't be picks from a document of {len(known)} "
                f"sentences within {request.words_max} words: the trajectory's messages were "
                "changed."
            )
        reward = float(trajectory.reward)
        return [PickedSample(features, request.words_max, picks, tuple(sampled.logprobs), reward)]

    def demonstrations_of(self, trajectory: Trajectory) -> list[PickedSample]:
        """Return the picks of a trajectory's last message: the policy's own, or for another's
        summary the most similar sentences, in a random order."""
        from openai.types.chat.chat_completion import Choice  # half a second to import

        *before, last = trajectory.messages_and_choices
        if isinstance(last, Choice):
            return self.samples_of(trajectory)
        request = request_in([one for one in before if isinstance(one, Mapping)])
        features = featurize(request.text)
        summary = str(trajectory.messages()[-1].get("content"))
        chosen = choose_alike(features, summary, request.words_max)
        if not chosen:
            start = textwrap.shorten(summary, _START_MAX, placeholder=" …")
            raise TrainerError(
                f"A summary to imitate has nothing in common with its document: {start!r}. "
                "The embedded policy can only learn to pick sentences that are there.",
                "Leave that summary out.",
            )
        picks = tuple(random.Random(summary).sample(chosen, len(chosen)))
        return [PickedSample(features, request.words_max, picks, (0.0,) * len(picks), 0.0)]

    def batch_of(self, samples: Sequence[PickedSample], advantages: Sequence[float]) -> PickBatch:
        count = len(samples)
        sentences = max(len(sample.features.words) for sample in samples)
        turns = max(len(sample.picks) for sample in samples)
        matrix = np.zeros((count, sentences, len(NAMES)))
        masks = np.zeros((count, turns, sentences), dtype=np.bool_)
        masks[:, :, 0] = True  # padding picks sentence 0 of 1: log-probability 0
        picks = np.zeros((count, turns), dtype=np.int64)
        valid = np.zeros((count, turns), dtype=np.bool_)
        logprobs = np.zeros((count, turns))
        for row, sample in enumerate(samples):
            words = sample.features.words
            length = len(sample.picks)
            matrix[row, : len(words)] = sample.features.matrix
            masks[row, :length, : len(words)] = candidates(words, sample.picks, sample.words_max)
            picks[row, :length] = sample.picks
            valid[row, :length] = True
            logprobs[row, :length] = sample.logprobs
        return PickBatch(
            matrix=matrix,
            masks=masks,
            picks=picks,
            valid=valid,
            logprobs=logprobs,
            advantages=np.array(advantages),
        )

    def count_tokens(self, samples: Sequence[PickedSample]) -> float:
        """Return the number of words of all picks."""
        return sum(float(one.features.words[list(one.picks)].sum()) for one in samples)


SENTENCES = SentencePicks()


def choose_alike(features: Features, summary: str, words_max: int) -> tuple[int, ...]:
    """Return the indices of the sentences that together are most similar to a summary, ascending.
    Greedy: the sentence that raises the F-measure of common words and pairs of words most, until
    none does (the oracle of Nallapati et al. 2017, https://arxiv.org/abs/1611.04230). Sentences
    copied word for word into a summary are found."""
    missing = _grams(summary)
    size = missing.total()  # of the summary and the chosen sentences, together
    of_sentences = list(map(_grams, features.sentences))
    left = words_max
    common = 0
    chosen: list[int] = []
    while True:
        best = None
        best_measure = common / size if size else 0.0
        for index, grams in enumerate(of_sentences):
            if index in chosen or features.words[index] > left:
                continue
            measure = (common + (grams & missing).total()) / (size + grams.total() or 1)
            if measure > best_measure:
                best = index
                best_measure = measure
        if best is None:
            return tuple(sorted(chosen))
        chosen.append(best)
        left -= int(features.words[best])
        common += (of_sentences[best] & missing).total()
        size += of_sentences[best].total()
        missing -= of_sentences[best]


def _grams(text: str) -> Grams:
    """Count words, and pairs of neighbouring words."""
    words = tokens(text)
    grams: Grams = Counter((word,) for word in words)
    grams.update(pairwise(words))
    return grams
