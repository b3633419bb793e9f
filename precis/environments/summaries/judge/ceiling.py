"""Whether a judge can read the documents at all: what it answers from their full texts."""

from precis.errors import ConfigError

CEILING_DOCUMENTS = 50
"""Held-out documents that a look at the ceiling takes; the benchmark reads all of them."""

_LOW = 0.5


def check_ceiling(ceiling: float, ceiling_min: float, judge: str) -> str | None:
    """What to say of a low ceiling; None where it is high enough.

    Args:
        ceiling: the share of the questions that the judge answers from the full documents.
        ceiling_min: the least share that a run may have.
        judge: its model's name.

    Raises:
        ConfigError: the ceiling is lower than that.
    """
    found = f"The judge {judge} answers {ceiling:.0%} of the questions from the full documents"
    remedy = (
        "See whether questions and golden answers belong to these documents, or have another "
        "model judge (judge.provider, judge.model)"
    )
    if ceiling < ceiling_min:
        raise ConfigError(
            f"{found}, less than ceiling_min ({ceiling_min:.0%}): no summary could earn a reward "
            f"worth learning from.",
            f"{remedy}; or set ceiling_min to 0 to train all the same.",
        )
    return f"{found}: rewards will be sparse. {remedy}." if ceiling < _LOW else None
