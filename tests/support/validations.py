"""Validations with the counts of forty held-out documents, by both judges."""

from collections.abc import Sequence

from precis.records.ledger import Metric, Validation
from tests.support.ledgers import measured

DOCUMENTS = 40
ASKED = (4,) * DOCUMENTS


def correct(share: float, shift: int = 0) -> tuple[int, ...]:
    """Four questions a document, of which `share` are answered, spread by a fixed pattern."""
    pattern = [(place * 7 + shift) % 5 - 2 for place in range(DOCUMENTS)]
    return tuple(min(4, max(0, round(4 * share + 0.5 * off))) for off in pattern)


def validation(
    step: int,
    first: Sequence[int | None],
    second: Sequence[int | None] | None = None,
    judge: str = "b",
) -> Validation:
    metrics = {"accuracy": _accuracy(first), "words": Metric(value=300)}
    if second is not None:
        metrics["second_accuracy"] = _accuracy(second, judge)
    return measured(step, metrics)


def _accuracy(counts: Sequence[int | None], judge: str = "") -> Metric:
    return Metric(
        value=_share(counts),
        low=0,
        high=1,
        is_share=True,
        scores=tuple(counts),
        weights=ASKED,
        judge=judge,
    )


def _share(counts: Sequence[int | None]) -> float:
    known = [count for count in counts if count is not None]
    return sum(known) / (4 * len(known))
