"""A trained agent in a store."""

from pathlib import Path

from precis.config import TrainConfig
from precis.environments.python import load_python
from precis.models.record import training_record, write_record
from precis.records.ledger import Ledger, write_ledger
from precis.rehearsal.checkpoint_files import initial_state, save
from precis.rehearsal.tool_calls.kind import TOOL_CALLS
from precis.run.checkpoints import commit
from precis.store import FolderStore
from tests.support.ledgers import record


def put_agent(store: FolderStore, file: Path, folder: Path, name: str = "player") -> None:
    """A run of an agent whose policy is untrained."""
    config = TrainConfig.model_validate({"environment": str(file), "model": name})
    digest = load_python(str(file)).digest
    saved = save(folder / "model", initial_state(TOOL_CALLS.layout, 1), TOOL_CALLS.layout)
    commit(store, name, 0, saved, "c")
    commit(store, name, 1, saved, "c")
    ledger = Ledger(model=name, config="c", corpus=digest).advance(record(0))
    write_ledger(store, ledger, None)
    write_record(store, name, training_record(config, "", (400, 100)))
