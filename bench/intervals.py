"""How often the benchmark's 95 % interval holds the truth, in simulated benchmarks.

    python bench/intervals.py [--experiments 1000] [--resamples 1000]

Documents differ in how hard they are, so that the answers to one document's questions resemble
each other. Each row is so many benchmarks of so many documents, with the true accuracy known;
five in a hundred intervals should miss it, half of them on either side.
"""

from collections.abc import Iterator
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from precis.statistics.bootstrap import Floats
from precis.statistics.intervals import ratio_interval

DOCUMENTS = (5, 12, 32, 91)
EASE = ((2.0, 2.0), (8.0, 1.0), (1.0, 6.0))
"""Beta distributions of a document's ease: about half, near the ceiling, near the floor."""


def main(
    experiments: Annotated[int, typer.Option(help="Simulated benchmarks of each kind.")] = 1000,
    resamples: Annotated[int, typer.Option(help="Resamples of each bootstrap.")] = 1000,
) -> None:
    """Print the coverage for few and many documents, easy and hard ones."""
    table = Table("documents", "accuracy", "held the truth", "too high", "too low", "mean width")
    for documents in DOCUMENTS:
        for ease in EASE:
            table.add_row(*_row(documents, ease, experiments, resamples))
    Console().print(table)


def _row(
    documents: int, ease: tuple[float, float], experiments: int, resamples: int
) -> Iterator[str]:
    truth = ease[0] / sum(ease)
    intervals = []
    for seed in range(experiments):
        intervals.append(
            ratio_interval(*_simulated(seed, documents, ease), seed=seed, resamples=resamples)
        )
    high = sum(each.low > truth for each in intervals) / experiments
    low = sum(each.high < truth for each in intervals) / experiments
    yield str(documents)
    yield f"{truth:.0%}"
    yield from (f"{share:.1%}" for share in (1 - high - low, high, low))
    yield f"{100 * np.mean([each.high - each.low for each in intervals]):.1f} points"


def _simulated(seed: int, documents: int, ease: tuple[float, float]) -> tuple[Floats, Floats]:
    """Correct answers and questions asked, three to five of each document."""
    generator = np.random.default_rng(seed)
    asked = generator.integers(3, 6, documents)
    correct = generator.binomial(asked, generator.beta(*ease, documents))
    return correct.astype(float), asked.astype(float)


if __name__ == "__main__":
    typer.run(main)
