"""The newest whole checkpoint, as tests ask for it."""

from precis.checkpoints import Checkpoint, whole_around
from precis.store import Store


def newest_whole(
    store: Store, model: str, at_most: int = 9999, warnings: list[str] | None = None
) -> Checkpoint | None:
    """The newest whole checkpoint up to a step; None if none is whole."""
    seen: list[str] = [] if warnings is None else warnings
    found = whole_around(store, model, at_most, seen.append)
    return next((found[step] for step in sorted(found, reverse=True) if step <= at_most), None)
