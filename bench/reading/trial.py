"""A rehearsal's training in process, with any settings: no server, no flow, no store."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from bench.reading.measures import right
from bench.reading.training import summarize
from precis.config import RolloutsConfig, TrainConfig
from precis.environments.summaries.rewards import reward_share
from precis.records.documents import Corpus, Document
from precis.rehearsal.checkpoint_files import TrainingState, initial_state
from precis.rehearsal.extractive.features import featurize
from precis.rehearsal.extractive.kind import SENTENCES
from precis.rehearsal.extractive.policy import logprobs, pick, summary
from precis.rehearsal.extractive.samples import PickedSample, batch_of
from precis.rehearsal.judges.judge import LEXICAL, PASSAGES, Rules
from precis.rehearsal.kind import Policy
from precis.rehearsal.train_step import advance, passes
from precis.rollouts.sample import draw_batch, draw_spares, sample_seed
from precis.settings.trainer import ExtractiveTrainer
from precis.text import count_words
from tests.support.policies import with_advantages_of

Group = list[PickedSample]


@dataclass(frozen=True)
class Outcome:
    """The result of a training, on the held-out documents.

    Attributes:
        second: accuracy by the second judge.
        verdicts: summaries that were judged in training.
        flat: share of the groups without variance.
    """

    accuracy: float
    second: float
    words: float
    verdicts: int
    flat: float


def train(config: TrainConfig, corpus: Corpus) -> Outcome:
    """Train as a rehearsal with these settings does, and measure the last policy."""
    assert isinstance(config.trainer, ExtractiveTrainer)
    # Trained is the newest, sampled from the oldest: the same one, unless steps are stale.
    states = deque(
        [initial_state(SENTENCES.layout, config.seed)], maxlen=1 + config.off_policy_steps
    )
    groups: list[Group] = []
    for step in range(config.steps):
        sampled = _sample_step(states[0], corpus, config, step)
        groups += sampled
        samples = with_advantages_of(sampled, config.trainer.scale_rewards)
        after = advance(states[-1])
        for done in passes(states[-1], batch_of(samples), config.trainer):
            after = done.trained
        states.append(after)
    return _measure(states[-1].policy, corpus.validation, groups)


def untrained(config: TrainConfig, corpus: Corpus) -> Outcome:
    """Measure the policy that a training with these settings begins with."""
    return _measure(initial_state(SENTENCES.layout, config.seed).policy, corpus.validation, [])


def _sample_step(
    state: TrainingState, corpus: Corpus, config: TrainConfig, step: int
) -> list[Group]:
    rollouts = config.rollouts
    size = rollouts.groups_per_step
    spares = deque(draw_spares(corpus.drawn, config.seed, step, size, rollouts.replacements_max))
    groups = []
    for document in draw_batch(corpus.drawn, config.seed, step, size):
        group = _group(state.policy, document, config, step)
        groups.append(group)
        while spares and _is_flat(group):
            group = _group(state.policy, spares.popleft(), config, step)
            groups.append(group)
    return groups


def _group(policy: Policy, document: Document, config: TrainConfig, step: int) -> Group:
    seeds = [
        sample_seed(config.seed, step, document.id, index)
        for index in range(config.rollouts.rollouts_per_group)
    ]
    return [_sample(policy, document, config.rollouts, seed) for seed in seeds]


def _sample(
    policy: Policy, document: Document, rollouts: RolloutsConfig, seed: int
) -> PickedSample:
    features = featurize(document.text)
    words_max = rollouts.words_max
    generator = np.random.default_rng(seed)
    picks = pick(policy, features, words_max, rollouts.temperature, generator)
    text = summary(features, picks)
    reward = right(document, text, LEXICAL) / document.asked
    reward *= reward_share(text, rollouts.words_max, rollouts.length_ramp)
    old = logprobs(policy, features, picks, words_max)
    return PickedSample(features, words_max, picks, tuple(old.tolist()), reward)


def _measure(policy: Policy, documents: Sequence[Document], groups: Sequence[Group]) -> Outcome:
    texts = [summarize(policy, document.text) for document in documents]
    return Outcome(
        accuracy=_accuracy(documents, texts, LEXICAL),
        second=_accuracy(documents, texts, PASSAGES),
        words=fmean(count_words(text) for text in texts),
        verdicts=sum(len(group) for group in groups),
        flat=fmean([_is_flat(group) for group in groups] or [0]),
    )


def _accuracy(documents: Sequence[Document], texts: Sequence[str], rules: Rules) -> float:
    found = [right(one, text, rules) for one, text in zip(documents, texts, strict=True)]
    return sum(found) / sum(document.asked for document in documents)


def _is_flat(group: Group) -> bool:
    return len({sample.reward for sample in group}) == 1
