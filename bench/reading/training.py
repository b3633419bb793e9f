"""GRPO of the embedded policy with the lexical judge, in process: no server, no flow."""

from collections.abc import Sequence
from random import Random

import numpy as np

from bench.reading.measures import correct
from precis.records.documents import Document
from precis.rehearsal.checkpoint_files import TrainingState, initial_state
from precis.rehearsal.extractive.features import featurize
from precis.rehearsal.extractive.kind import SENTENCES
from precis.rehearsal.extractive.policy import logprobs, pick, summary
from precis.rehearsal.extractive.samples import PickedSample, batch_of
from precis.rehearsal.kind import Policy
from precis.rehearsal.train_step import advance, passes
from precis.settings.trainer import ExtractiveTrainer
from precis.words import WORDS_MAX
from tests.support.policies import with_advantages_of

GROUPS = 5
ROLLOUTS = 8


def trained_on(documents: Sequence[Document], steps: int, seed: int) -> Policy:
    """The policy after so many steps of so many groups, as a rehearsal trains it."""
    chance = Random(seed)
    state = initial_state(SENTENCES.layout, seed)
    for step in range(steps):
        generator = np.random.default_rng([seed, step])
        state = train_step(state, chance.sample(documents, GROUPS), generator)
    return state.policy


def train_step(
    state: TrainingState, documents: Sequence[Document], generator: np.random.Generator
) -> TrainingState:
    """One step: a group of each document, sampled, judged and learned from."""
    samples = with_advantages_of([sample_group(state, one, generator) for one in documents])
    after = advance(state)
    for done in passes(state, batch_of(samples), ExtractiveTrainer()):
        after = done.trained
    return after


def summarize(policy: Policy, text: str, words_max: int = WORDS_MAX) -> str:
    """The policy's greedy summary."""
    features = featurize(text)
    picks = pick(policy, features, words_max, 0.0, np.random.default_rng(0))
    return summary(features, picks)


def sample_group(
    state: TrainingState, document: Document, generator: np.random.Generator, size: int = ROLLOUTS
) -> list[PickedSample]:
    """Summaries of a document, with what the lexical judge says they earn."""
    return [_sample(state, document, generator) for _ in range(size)]


def _sample(
    state: TrainingState, document: Document, generator: np.random.Generator
) -> PickedSample:
    features = featurize(document.text)
    picks = pick(state.policy, features, WORDS_MAX, 1.0, generator)
    asked = sum(question.answerable for question in document.questions)
    reward = correct(document, summary(features, picks)) / asked
    old = logprobs(state.policy, features, picks, WORDS_MAX)
    return PickedSample(features, WORDS_MAX, picks, tuple(old.tolist()), reward)
