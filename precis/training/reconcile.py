"""The point where a run continues, decided from its ledger, its store and its trainer.

Training, upload and ledger are three writes in three places, in this order, and a process may die
between any two of them. So on resume each place may know of a step that the next one does not:

    trainer         store           ledger         then
    at L + 1        at L            at L           commit L + 1: it is trained, not uploaded
    any             at L + 1        at L           the manifest has the record: write the ledger
    at L            L damaged       at L           upload L again
    behind, gone    at L            at L           restore L
    of another run  at L            at L           restore L
    behind, gone    L damaged       at L           go back to the newest whole one, restore that
    any             nothing         nothing        begin

A step that is trained is never trained again unless its weights are lost everywhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from precis.errors import CorruptCheckpoint
from precis.records.ledger import Ledger
from precis.records.manifests import Checkpoint, files_digest
from precis.trainer.protocol import TrainedStep, TrainerState


@dataclass(frozen=True)
class ResumePlan:
    """The way in which a run continues.

    Attributes:
        ledger: the ledger to continue from, before the steps in `ahead` are committed.
        trainer: `keep` its model, `restore` the ledger's checkpoint, or `begin` the model.
        upload: whether the trainer's copy of the ledger's checkpoint goes to the store (again).
        ahead: the steps that the trainer has trained beyond the ledger, in order.
    """

    ledger: Ledger
    trainer: Literal["keep", "restore", "begin"]
    upload: bool = False
    ahead: tuple[TrainedStep, ...] = ()


def reconcile(ledger: Ledger, whole: Mapping[int, Checkpoint], trainer: TrainerState) -> ResumePlan:
    """Decide where a run continues.

    `whole` are the manifests of the store's whole checkpoints from the ledger's step on, and of the
    newest before it. A CorruptCheckpoint says that no checkpoint of the run is whole anywhere.
    """
    # Steps whose checkpoints were committed, but whose ledger was not written any more.
    while (checkpoint := whole.get(ledger.next_step + 1)) is not None:
        record = checkpoint.record
        if record is None or record.step != ledger.next_step or checkpoint.run != ledger.run_id:
            break
        ledger = ledger.advance(record, checkpoint.digest)
    at = ledger.next_step
    if at not in whole and not _holds(trainer, ledger):
        earlier = [step for step in whole if step < at]
        if not earlier and at == 0:
            return ResumePlan(ledger, "begin", upload=True)
        if not earlier:
            raise CorruptCheckpoint(
                f"No checkpoint of {ledger.model!r} up to step {at} is whole.",
                "Bring one back from a backup, or train under another model name.",
            )
        at = max(earlier)
        ledger = ledger.rewind(at)
    if not _holds(trainer, ledger, whole.get(at)):
        return ResumePlan(ledger, "restore")
    ahead = tuple(trainer.trained[step] for step in range(at, max(trainer.checkpoints)))
    return ResumePlan(ledger, "keep", upload=at not in whole, ahead=ahead)


def _holds(trainer: TrainerState, ledger: Ledger, as_in: Checkpoint | None = None) -> bool:
    """Return whether the trainer can continue from the ledger's checkpoint, or from a later one of
    its own.

    Args:
        as_in: the store's manifest of that checkpoint, which must name the same files.
    """
    at = ledger.next_step
    newest = max(trainer.checkpoints, default=-1)
    files = trainer.checkpoints.get(at)
    return (
        trainer.run == ledger.run_id
        and files is not None
        and (as_in is None or files == as_in.files)
        and files_digest(files) == ledger.checkpoints.get(at, files_digest(files))
        and all(step in trainer.trained for step in range(at, newest))
    )
