"""Checkpoints that could not be uploaded, kept on this machine until the run goes on.

A rented trainer may be gone by then, and its disk with it.
"""

import shutil
from pathlib import Path

from precis.records.ledger import Ledger, StepRecord
from precis.run.checkpoints import commit
from precis.store import Store
from precis.store.durable import move, sync_tree

FILES = "files"
_RECORD = "record.json"


def keep_record(folder: Path, record: StepRecord) -> None:
    """Put a step's record beside its checkpoint's files: what is kept is complete with it."""
    # The files have to be on the disk before the record says that they are.
    sync_tree(folder / FILES)
    temporary = folder / f"{_RECORD}.tmp"
    temporary.write_text(record.model_dump_json())
    move(temporary, folder / _RECORD)


def upload_kept(store: Store, ledger: Ledger, folder: Path, lease: str = "") -> int | None:
    """Commit the kept checkpoint that the ledger lacks, if there is one, and drop the folder.

    Args:
        lease: id of the lease that the run holds.

    Returns:
        Its step.

    Raises:
        StoreError: it could still not be uploaded, and is kept.
    """
    record = _record(folder)
    if record is None or record.step > ledger.next_step:
        return None
    step = record.step + 1
    lacks_it = record.step == ledger.next_step
    if lacks_it:
        files = folder / FILES
        commit(store, ledger.model, step, files, ledger.config, record, ledger.run_id, lease)
    shutil.rmtree(folder)
    return step if lacks_it else None


def _record(folder: Path) -> StepRecord | None:
    path = folder / _RECORD
    return StepRecord.model_validate_json(path.read_bytes()) if path.exists() else None
