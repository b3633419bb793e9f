"""Validations with the counts of forty held-out documents, by both judges."""

from collections.abc import Sequence

from precis.records.ledger import SecondOpinion, Validation

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
    opinion = None
    if second is not None:
        opinion = SecondOpinion(
            judge=judge, accuracy=_share(second), low=0, high=1, correct=tuple(second)
        )
    return Validation(
        step=step,
        accuracy=_share(first),
        low=0,
        high=1,
        words=300,
        seconds=1,
        unscored={},
        correct=tuple(first),
        asked=ASKED,
        second=opinion,
    )


def _share(counts: Sequence[int | None]) -> float:
    known = [count for count in counts if count is not None]
    return sum(known) / (4 * len(known))
