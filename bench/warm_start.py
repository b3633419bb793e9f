"""A rehearsal that begins by imitating its own best summaries, beside one that does not.

    python bench/warm_start.py [--steps 30] [--seeds 3]

Trains the embedded policy as a rehearsal does, but in process, and has the lexical judge say how
many questions about held-out documents its greedy summaries answer. A warm start is one of the
steps. Both are measured after the same steps; the warm start has had more summaries judged by then
(documents × samples, where a step has 40), which the last column counts.
"""

from collections.abc import Sequence
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from bench.reading.measures import correct
from bench.reading.training import GROUPS, ROLLOUTS, sample_group, summarize, train_step
from precis.config import DocumentsConfig, TrainConfig
from precis.environments.summaries.task import Summarizing
from precis.environments.summaries.warm_start.documents import prepare_warm_start
from precis.records.documents import Corpus, Document, load_corpus
from precis.rehearsal.checkpoint_files import TrainingState, initial_state
from precis.rehearsal.extractive.kind import SENTENCES
from precis.rehearsal.extractive.samples import PickedSample, batch_of
from precis.rehearsal.train_step import advance, end_imitation, imitate
from precis.rollouts.sample import draw_batch
from precis.training.demonstrations import sft_options

MEASURED = 20


def main(
    steps: Annotated[int, typer.Option(help="Steps to train.")] = 30,
    seeds: Annotated[int, typer.Option(help="Train with so many seeds.")] = 3,
    documents: Annotated[int, typer.Option(help="Documents of the warm start.")] = 40,
    samples: Annotated[int, typer.Option(help="Summaries of each, of which the best counts.")] = 8,
    epochs: Annotated[int, typer.Option(help="Passes over them.")] = 2,
    batch_size: Annotated[int, typer.Option(help="Summaries of an update.")] = 4,
    learning_rate: Annotated[float, typer.Option(help="The highest.")] = 0.02,
) -> None:
    """Print, by seed, accuracies and how many groups had rewards that differ."""
    asked = {
        "scenarios": documents,
        "samples": samples,
        "epochs": epochs,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
    }
    marks = [1, *range(10, steps + 1, 10)]
    heads = [f"after {mark}" for mark in marks]
    table = Table("seed", "begins", "untrained", *heads, "groups that differ", "judged")
    for seed in range(1, seeds + 1):
        for warm_start in (None, asked):
            settings = {"store": "bench", "seed": seed, "warm_start": warm_start}
            config = TrainConfig.model_validate(settings)
            table.add_row(*_measure(config, steps, marks))
    Console().print(table)


def _measure(config: TrainConfig, steps: int, marks: Sequence[int]) -> list[str]:
    corpus = load_corpus(DocumentsConfig(train_size=160, val_size=32))
    task = Summarizing(config.rollouts.words_max)
    warm_start, corpus = prepare_warm_start(config.warm_start, corpus, task)
    state = initial_state(SENTENCES.layout, config.seed)
    accuracies = [_accuracy(state, corpus)]
    varied = [_count_varied(state, corpus, config.seed)]
    judged = 0
    for step in range(steps):
        if step == 0 and warm_start is not None:
            state = _warm_up(state, corpus.warm_start, config)
            assert config.warm_start is not None
            judged += len(corpus.warm_start) * config.warm_start.samples
        else:
            batch = draw_batch(corpus.drawn, config.seed, step, GROUPS)
            state = train_step(state, batch, np.random.default_rng([config.seed, step]))
            judged += GROUPS * ROLLOUTS
        if step == 0:
            varied.append(_count_varied(state, corpus, config.seed))
        if step + 1 in marks:
            accuracies.append(_accuracy(state, corpus))
    before, after = varied
    begins = "warm" if warm_start else "cold"
    shown = [f"{accuracy:.1%}" for accuracy in accuracies]
    groups = f"{before} and {after} of {MEASURED}"
    return [str(config.seed), begins, *shown, groups, f"{judged:,}"]


def _warm_up(
    state: TrainingState, documents: Sequence[Document], config: TrainConfig
) -> TrainingState:
    """Imitate the best of each document's summaries, in a random order in each pass."""
    assert config.warm_start is not None
    generator = np.random.default_rng([config.seed, 0])
    shown = []
    for document in documents:
        group = sample_group(state, document, generator, config.warm_start.samples)
        best = max(group, key=lambda sample: sample.reward)
        if best.reward > 0:
            shown.append(best)
    options = sft_options(config, len(shown))
    size = options["batch_size"]
    batches: list[list[PickedSample]] = []
    while len(batches) < len(options["learning_rates"]):
        order = [shown[at] for at in generator.permutation(len(shown))]
        batches += [order[start : start + size] for start in range(0, len(order), size)]
    for batch, rate in zip(batches, options["learning_rates"], strict=False):
        state = imitate(state, batch_of([one.with_advantage(1.0) for one in batch]), rate).trained
    return advance(end_imitation(state))


def _accuracy(state: TrainingState, corpus: Corpus) -> float:
    right = 0
    asked = 0
    for document in corpus.validation:
        right += correct(document, summarize(state.policy, document.text))
        asked += sum(question.answerable for question in document.questions)
    return right / asked


def _count_varied(state: TrainingState, corpus: Corpus, seed: int) -> int:
    generator = np.random.default_rng([seed, 1])
    varied = 0
    for document in draw_batch(corpus.drawn, seed, 0, MEASURED):
        rewards = {sample.reward for sample in sample_group(state, document, generator)}
        varied += len(rewards) > 1
    return varied


if __name__ == "__main__":
    typer.run(main)
