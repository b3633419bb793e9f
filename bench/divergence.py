"""How often a run is said to part ways with its second judge, where it does and where it doesn't.

    python bench/divergence.py

Runs of eleven validations are made up: documents differ in how hard they are, summaries from one
validation to the next, and each judge errs by itself. The gain comes over the first half of a run.
"""

import numpy as np
from rich.console import Console
from rich.table import Table

from precis.records.ledger import Metric, Validation
from precis.run.validations import divergence

RUNS = 100
VALIDATIONS = 10
QUESTIONS = 4
CASES = {
    "nothing is gained": (0.0, 0.0),
    "both see the same gain": (1.0, 1.0),
    "the second sees half of it": (1.0, 0.5),
    "the second sees none": (1.0, 0.0),
    "the second sees a loss": (1.0, -0.5),
}
"""What each judge sees gained in the end, in logits: 1.0 is from 50 % to about 70 %."""


def main() -> None:
    """Print the share of runs with a warning at any validation, and at the last."""
    table = Table("documents", "run", "warned at any time", "at the end")
    for documents in (32, 91):
        for name, gains in CASES.items():
            chance = np.random.default_rng(1)
            warned = [_warnings(chance, documents, gains) for _ in range(RUNS)]
            at_any_time = np.mean([any(one) for one in warned])
            at_the_end = np.mean([one[-1] for one in warned])
            table.add_row(str(documents), name, f"{at_any_time:.0%}", f"{at_the_end:.0%}")
    Console().print(table)


def _warnings(
    chance: np.random.Generator, documents: int, gains: tuple[float, float]
) -> list[bool]:
    """Whether each validation of one run warns."""
    hardness = chance.normal(0, 0.5, documents)
    validations: list[Validation] = []
    warned = []
    for number in range(VALIDATIONS + 1):
        known = hardness + chance.normal(0, 0.5, documents)
        share = min(1.0, 2 * number / VALIDATIONS)
        counts = []
        for gain in gains:
            probability = 1 / (1 + np.exp(-(known + gain * share)))
            counts.append(chance.binomial(QUESTIONS, probability).tolist())
        validations.append(_validation(number, *counts))
        warned.append(divergence(validations) is not None)
    return warned


def _validation(number: int, first: list[int], second: list[int]) -> Validation:
    metrics = {"accuracy": _accuracy(first), "second_accuracy": _accuracy(second, "second")}
    return Validation(step=number, measure="accuracy", metrics=metrics, seconds=0, unscored={})


def _accuracy(counts: list[int], judge: str = "") -> Metric:
    asked = (QUESTIONS,) * len(counts)
    value = sum(counts) / sum(asked)
    return Metric(value=value, low=0, high=1, scores=tuple(counts), weights=asked, judge=judge)


if __name__ == "__main__":
    main()
