"""Which checkpoints a store keeps, and the removal of the others."""

from collections.abc import Collection, Mapping

from precis.checkpoints import Checkpoint, checkpoint_key, intact, manifest_key, steps_in
from precis.config import Retention
from precis.errors import CorruptCheckpoint
from precis.store import Store


def kept(
    steps: Collection[int], retention: Retention, accuracies: Mapping[int, float]
) -> frozenset[int]:
    """The steps to keep of these.

    The first is among them, since everything is compared with it, and the newest, since a run
    resumes from it. Of equal accuracies the newer counts as better.

    Args:
        accuracies: validation accuracy by step; steps without one can't be the best.
    """
    ascending = sorted(steps)
    judged = sorted((accuracies[step], step) for step in steps if step in accuracies)
    every = (step for step in steps if retention.keep_every and step % retention.keep_every == 0)
    best = (step for _, step in judged[-retention.keep_best :] if retention.keep_best)
    return frozenset([*ascending[:1], *ascending[-retention.keep_last :], *every, *best])


def prune(
    store: Store, model: str, retention: Retention, accuracies: Mapping[int, float], at: int
) -> list[int]:
    """Delete the checkpoints that a newer whole one makes unnecessary; returns their steps.

    Nothing is deleted unless a whole checkpoint newer than it, up to `at`, is in the store. The
    manifest goes first: what is left after a crash is no checkpoint, and goes the next time.

    Args:
        at: the ledger's step, which a run would resume from; later checkpoints are left alone.

    Raises:
        StoreError: some of them may be deleted already.
    """
    sizes = store.sizes(f"{model}/checkpoints/")
    whole = [step for step in steps_in(sizes) if step <= at and _whole(store, model, step, sizes)]
    if not whole:
        return []
    keep = kept(whole, retention, accuracies)
    surplus = [step for step in steps_begun(sizes) if step < whole[-1] and step not in keep]
    for step in surplus:
        store.delete(manifest_key(model, step))
        store.delete(checkpoint_key(model, step))
    return surplus


def _whole(store: Store, model: str, step: int, sizes: Mapping[str, int]) -> Checkpoint | None:
    try:
        return intact(store, model, step, sizes)
    except CorruptCheckpoint:
        return None


def steps_begun(keys: Collection[str]) -> list[int]:
    """The steps that have any file at all."""
    names = {key.partition("/checkpoints/")[2].partition("/")[0] for key in keys}
    return sorted(int(name) for name in names if name.isdecimal())
