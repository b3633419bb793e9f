"""Scores of texts that are not prose, beside the honest texts they are made from.

    python bench/attacks.py [documents.parquet …] [--only dropped]

Without a file: the 32 held-out documents of a rehearsal. An honest text is 350 words of sentences:
the document's first, random ones, central ones, or an abstract of `tests/data` where there is one,
filled up with the document's first. The document's other sentences follow it: an attack fills the
words that it saves with them. The function words are English.

Exits with 1 if an attack beats its honest text beyond chance: if the 95 % interval of the
difference, documents resampled, is above zero.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from bench.reading.attacks import ATTACKS, Source, sources_of
from bench.reading.measures import right
from precis.config import DocumentsConfig
from precis.environments.summaries.prose import prose_share
from precis.environments.summaries.rewards import disqualify
from precis.records.documents import Document, load_corpus, read_documents
from precis.statistics.intervals import paired_interval
from precis.words import WORDS_MAX


@dataclass(frozen=True)
class Earned:
    """The scores of texts, by document."""

    right: list[float]
    prose: list[float]
    out: list[bool]


def earned(sources: Sequence[Source], attack: Callable[[Source], str]) -> Earned:
    """Have the judge read what an attack makes of each source."""
    found = Earned([], [], [])
    for source in sources:
        document = source.document
        text = attack(source)
        found.out.append(bool(disqualify(text, document, WORDS_MAX)))
        found.prose.append(prose_share(text, document.text))
        share = 0.0 if found.out[-1] else found.prose[-1]
        found.right.append(share and share * right(document, text))
    return found


def main(
    files: Annotated[list[str] | None, typer.Argument(help="Corpora in RepLiQA's columns.")] = None,
    only: Annotated[str, typer.Option(help="Attacks with this in their name alone.")] = "",
) -> None:
    """Print one table for all files together."""
    documents: list[Document] = []
    for file in files or []:
        documents += read_documents(DocumentsConfig(source=file))
    if not files:
        documents += load_corpus(DocumentsConfig(train_size=160, val_size=32)).validation
    table = Table("text", "right", "prose", "out", "ahead")
    ahead = []
    for name, sources in sources_of(documents).items():
        asked = [sum(q.answerable for q in one.document.questions) for one in sources]
        honest = earned(sources, lambda one: one.honest)
        table.add_section()
        table.add_row(f"{name}, {len(sources)} documents", *_figures(honest, asked))
        for title, attack in ATTACKS.items():
            if only in title:
                made = earned(sources, attack)
                gain = paired_interval(made.right, honest.right, asked)
                low, mean, high = (100 * value for value in (gain.low, gain.mean, gain.high))
                shown = f"{mean:+.1f} ({low:+.1f} to {high:+.1f})"
                table.add_row(f"  {title}", *_figures(made, asked), shown)
                if not title.startswith("(") and gain.low > 0:
                    ahead.append(f"{name}: {title}")
    Console(width=136).print(table)
    print(f"Ahead beyond chance: {'; '.join(ahead) or 'none'}.")
    raise typer.Exit(bool(ahead))


def _figures(found: Earned, asked: Sequence[int]) -> list[str]:
    share = f"{sum(found.right) / sum(asked):.1%}"
    return [share, f"{fmean(found.prose):.2f}", f"{fmean(found.out):.0%}"]


if __name__ == "__main__":
    typer.run(main)
