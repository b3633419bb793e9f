"""A policy that was trained on the bundled corpus, on documents of another kind.

    python bench/transfer.py [documents.parquet] [--steps 30]

Trains the embedded policy as a rehearsal does, but in process, and has the lexical judge say how
many questions its greedy summaries of the given documents answer, beside the two baselines.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from bench.reading.measures import correct
from bench.reading.training import summarize, trained_on
from precis.config import DocumentsConfig
from precis.environments.summaries.baselines import lead, random_sentences
from precis.records.documents import Document, read_documents
from precis.rehearsal.extractive.kind import SENTENCES
from precis.rehearsal.kind import untrained
from precis.statistics.intervals import ratio_interval
from precis.words import WORDS_MAX

_PROSE = "tests/data/prose_tuning.parquet"
_SEEDS = (1, 2, 3)


def main(
    file: Annotated[str, typer.Argument(help="A corpus in RepLiQA's columns.")] = _PROSE,
    steps: Annotated[int, typer.Option(help="Steps to train.")] = 30,
) -> None:
    """Print the share of questions that each contender's summaries answer."""
    documents = read_documents(DocumentsConfig(source=file))
    bundled = read_documents(DocumentsConfig())
    table = Table("contender", "share of the questions (95 %)")
    table.add_row("lead-350", _share(documents, lambda text: lead(text, WORDS_MAX)))
    table.add_row("random-350", _share(documents, lambda text: random_sentences(text, WORDS_MAX)))
    for seed in _SEEDS:
        for name, policy in (
            ("untrained", untrained(SENTENCES.layout, seed)),
            (f"step {steps}", trained_on(bundled, steps, seed)),
        ):
            table.add_row(f"{name}, seed {seed}", _share(documents, partial(summarize, policy)))
    Console().print(table)


def _share(documents: Sequence[Document], summary_of: Callable[[str], str]) -> str:
    right = [correct(document, summary_of(document.text)) for document in documents]
    asked = [sum(one.answerable for one in document.questions) for document in documents]
    return str(ratio_interval(right, asked))


if __name__ == "__main__":
    typer.run(main)
