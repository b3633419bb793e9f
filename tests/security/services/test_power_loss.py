"""What trainer and store vouch for is there after a loss of power, wherever it strikes.

A training and its commits run once under strace; then its system calls are replayed up to each
point, and what a disk would still have there is read as the next trainer and the next run read it.
"""

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from precis.records.manifests import pointer_key
from precis.rehearsal.checkpoint_files import load
from precis.rehearsal.extractive.kind import SENTENCES
from precis.run.checkpoints import committed_steps, restore
from precis.store import open_store
from precis.trainer.journal import Journal
from tests.security.services.disk import CALLS, Disk
from tests.services.conftest import ROOT
from tests.services.needs import need
from tests.services.patience import patience_s

STEPS = 2
PROGRAM = """
import sys
from dataclasses import dataclass
from pathlib import Path
from precis.run.checkpoints import commit
from precis.rehearsal.extractive.kind import SENTENCES
from precis.rehearsal.checkpoint_files import initial_state, save
from precis.rehearsal.train_step import advance
from precis.store import open_store
from precis.trainer.journal import Journal
from precis.trainer.protocol import TrainedStep

root = Path(sys.argv[1])
trainer, store = root / "trainer", open_store(str(root / "store"))
journal, state = Journal(trainer), initial_state(SENTENCES.layout, 1)
journal.forget()
save(trainer, state, SENTENCES.layout)
journal.belongs("run")
commit(store, "m", 0, journal.checkpoint(0), "config", run="run")
for step in range(int(sys.argv[2])):
    journal.began(step, f"{step:064x}", {})
    state = advance(state)
    save(trainer, state, SENTENCES.layout, {"loss": 1.0})
    result = {"step": step + 1, "metrics": {"loss": 1.0}}
    journal.finished(step, TrainedStep(digest=f"{step:064x}", result=result, note={}))
    print("trained", step + 1, flush=True)
    commit(store, "m", step + 1, journal.checkpoint(step + 1), "config", run="run")
    print("committed", step + 1, flush=True)
"""


@dataclass(frozen=True)
class Recording:
    """The system calls of a training in a folder; its data are in them whole."""

    root: Path
    calls: list[str]


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    folder = tmp_path_factory.mktemp("recorded")
    root, record = folder / "root", folder / "record"
    root.mkdir()
    every_byte = ("-xx", "-s", "100000000", "-y")
    traced = (need("strace", "strace"), *every_byte, "-e", f"trace={CALLS}", "-o", str(record))
    program = (sys.executable, "-c", PROGRAM, str(root), str(STEPS))
    subprocess.run(
        [*traced, *program], cwd=ROOT, check=True, timeout=patience_s(), capture_output=True
    )
    return Recording(root, record.read_text().splitlines())


@pytest.mark.parametrize("names_first", [False, True], ids=["nothing", "names first"])
def test_what_is_vouched_for_outlasts_a_loss_of_power(
    names_first: bool, recording: Recording, tmp_path: Path
) -> None:
    disk = Disk(recording.root)
    cuts = 0
    for _ in disk.replay(recording.calls):
        cuts += 1
        left = tmp_path / "left"
        disk.leave(left, names_first)
        check(left, disk.printed.splitlines(), tmp_path / "restored")
        shutil.rmtree(left)
    assert disk.printed.endswith(f"committed {STEPS}\n")
    assert cuts > 100


def check(left: Path, said: list[str], into: Path) -> None:
    """Read what is left: nothing damaged is vouched for, and nothing that was said is gone."""
    journal = Journal(left / "trainer")
    here = sorted(journal.state().checkpoints)
    for step in here:
        load(left / "trainer", step, SENTENCES.layout)
    assert journal.pending is None or journal.pending.step in range(STEPS)
    store = open_store(str(left / "store"))
    there = committed_steps(store, "m")
    for step in there:
        restore(store, "m", step, into)
        shutil.rmtree(into)
    pointer = store.get(pointer_key("m"))
    newest = json.loads(pointer.data)["step"] if pointer else -1
    assert newest in (-1, *there)
    for event, number in map(str.split, said):
        if event == "trained":
            assert int(number) in here
        else:
            assert int(number) in there
            assert newest >= int(number)
