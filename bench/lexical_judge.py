"""The accuracy and the false accepts of the lexical judge.

    python bench/lexical_judge.py documents.parquet other.jsonl

Each file has RepLiQA's columns. Accuracies are over the answerable questions; false accepts over
golden answers of other questions of the same document, and golden answers with one number or date,
one name or one denial changed. telegraph-350 is not prose: its reward is 0, whatever its accuracy.
Intervals are of 95 %, whole documents resampled.
"""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from bench.reading.measures import Share, accuracies, declined, false_accepts
from precis.config import DocumentsConfig
from precis.records.documents import read_documents


def main(
    files: Annotated[
        list[str] | None, typer.Argument(help="Corpora in RepLiQA's columns; none: the bundled.")
    ] = None,
) -> None:
    """Print one table for all files."""
    table = Table("documents", "measure", "of", "share (95 %)")
    for file in files or ["bundled"]:
        documents = read_documents(DocumentsConfig(source=file))
        shares = [*accuracies(documents), declined(documents)]
        for wrong in false_accepts(documents):
            shares.append(Share(f"accepted: {wrong.name}", wrong.counts))
        for share in shares:
            table.add_row(Path(file).name, share.name, str(share.of), str(share.interval or "–"))
        table.add_section()
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
