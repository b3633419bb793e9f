"""The checkpoints that a store keeps, and the removal of the others."""

from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor

from precis.config import Retention
from precis.errors import CorruptCheckpoint
from precis.processes.kill_points import reached
from precis.records.ledger import Ledger
from precis.records.manifests import (
    Checkpoint,
    checkpoint_key,
    checkpoints_key,
    is_step,
    manifest_key,
    steps_in,
)
from precis.runs.checkpoints import complete_manifest
from precis.runs.lease import check_lease
from precis.store import Store
from precis.store.files import REQUESTS_AT_ONCE


def kept(
    steps: Collection[int], retention: Retention, scores: Mapping[int, float]
) -> frozenset[int]:
    """Return the steps to keep of these: the first, with which everything is compared, the newest,
    from which a run resumes, and those by `retention`. Of equal scores the newer is better."""
    ascending = sorted(steps)
    keep = {*ascending[:1], *ascending[-retention.keep_last :]}
    judged = []
    for step in ascending:
        if retention.keep_every and step % retention.keep_every == 0:
            keep.add(step)
        if step in scores:
            judged.append((scores[step], step))
    if retention.keep_best:
        for _, step in sorted(judged)[-retention.keep_best :]:
            keep.add(step)
    return frozenset(keep)


def prune(store: Store, ledger: Ledger, retention: Retention, lease: str = "") -> list[int]:
    """Delete the checkpoints that a newer whole one, up to the ledger's step, makes unnecessary.

    Files of failed commits beside the remaining checkpoints go too. All checkpoints up to a rebuilt
    ledger's step stay, since the best of them is not known. Returns the deleted steps; a LeaseLost
    deletes nothing more.
    """
    model = ledger.model
    sizes = store.sizes(checkpoints_key(model))
    committed = [step for step in steps_in(sizes) if step <= ledger.next_step]

    def read(step: int) -> Checkpoint | None:
        try:
            return complete_manifest(store, model, step, sizes)
        except CorruptCheckpoint:
            return None

    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as threads:
        found = list(threads.map(read, committed))
    whole = {one.step: one for one in found if one is not None}
    if not whole:
        return []
    keep = kept(whole, retention, {one.step: one.score.value for one in ledger.validations})
    newest = max(whole)
    if ledger.rebuilt_at is not None:
        keep |= {step for step in whole if step <= ledger.rebuilt_at}
    begun = keys_by_step(sizes)
    surplus = [step for step in begun if step < newest and step not in keep]
    for step in surplus:
        remove(store, model, step, lease)
    # An attempt that died before its manifest has left files beside those of the one that
    # succeeded.
    for step in sorted(keep):
        own = checkpoint_key(model, step)
        attempts = set()
        for key in begun[step]:
            attempt, slash, _ = key.removeprefix(own).partition("/")
            if slash and attempt != whole[step].attempt:
                attempts.add(attempt)
        for attempt in sorted(attempts):
            check_lease(store, model, lease)
            store.delete(f"{own}{attempt}/")
    return surplus


def remove(store: Store, model: str, step: int, lease: str = "") -> None:
    """Delete a checkpoint while the run holds its lease, or raise LeaseLost. The manifest goes
    first: the files left by a crash are no checkpoint, and go the next time."""
    check_lease(store, model, lease)
    store.delete(manifest_key(model, step))
    reached("manifest deleted", step)
    store.delete(checkpoint_key(model, step))


def keys_by_step(keys: Collection[str]) -> dict[int, list[str]]:
    """Return the keys of each step that has any file at all, by step, ascending."""
    found: dict[int, list[str]] = {}
    for key in keys:
        name = key.partition("/checkpoints/")[2].partition("/")[0]
        if is_step(name):
            found.setdefault(int(name), []).append(key)
    return dict(sorted(found.items()))
