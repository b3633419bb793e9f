"""What trainer and store vouch for is there after a loss of power, wherever it strikes.

A training and its commits run once under strace; then its system calls are replayed up to each
point, and what a disk would still have there is read as the next trainer and the next run read it.

A file's content is on the disk as of its last `fsync`, and so are the names in a folder. What else
a loss of power leaves is up to the file system; two are tried: nothing of what was not synced, and
every name, with nothing in the files (`names_first`).
"""

import codecs
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from precis.records.manifests import pointer_key
from precis.rehearsal.checkpoint_files import load
from precis.rehearsal.extractive.kind import SENTENCES
from precis.run.checkpoints import committed_steps, restore
from precis.store import open_store
from precis.trainer.journal import Journal
from tests.services.conftest import ROOT
from tests.services.needs import need
from tests.services.patience import patience_s

CALLS = "openat,write,sendfile,fsync,rename,mkdir,unlink,unlinkat,rmdir"
_CALL = re.compile(r"^(?P<name>\w+)\((?P<given>.*)\)\s+= (?P<result>-?\d+)")
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_DESCRIPTOR = re.compile(r"^(\d+)<")
STEPS = 2
PROGRAM = """
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
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


@dataclass
class File:
    content: bytearray = field(default_factory=bytearray)
    synced: bytes = b""


@dataclass
class Folder:
    names: "dict[str, File | Folder]" = field(default_factory=dict)
    synced: "dict[str, File | Folder]" = field(default_factory=dict)


@dataclass
class Disk:
    """What lies under a folder that was empty, and there, when the recording began."""

    root: Path
    top: Folder = field(default_factory=Folder)
    printed: str = ""
    """What the program has printed, as far as it got."""
    _open: dict[int, tuple[File | Folder, int]] = field(default_factory=dict)

    def replay(self, recorded: Sequence[str]) -> Iterator[str]:
        """Follow a recording; each name of a call that mattered, after it was made."""
        for line in recorded:
            call = _CALL.match(line)
            if call is None or int(call["result"]) < 0:
                continue
            if self._make(call["name"], call["given"], int(call["result"])):
                yield call["name"]

    def leave(self, into: Path, names_first: bool) -> None:
        """Write what a loss of power now would leave to a folder."""
        _leave(self.top, into, names_first)

    def _make(self, name: str, given: str, result: int) -> bool:
        texts = [codecs.escape_decode(text)[0] for text in _TEXT.findall(given)]
        descriptor = _DESCRIPTOR.match(given)
        number = int(descriptor[1]) if descriptor else -1
        if name == "openat":
            return self._opened(texts[0].decode(), given, result)
        if name == "write":
            return self._written(number, texts[0] if texts else b"")
        if name == "sendfile":
            source = int(given.split(", ")[1].partition("<")[0])
            return self._copied(number, source, result)
        if name == "fsync":
            return self._synced(number)
        return self._renamed_or_removed(name, [text.decode() for text in texts], given)

    def _opened(self, path: str, given: str, number: int) -> bool:
        self._open.pop(number, None)
        parent, name = self._find(path)
        if parent is None:
            return False
        found: File | Folder | None = self.top if name == "" else parent.names.get(name)
        creates = found is None
        if creates:
            found = parent.names[name] = File()
        assert found is not None
        if "O_TRUNC" in given and isinstance(found, File):
            found.content.clear()
        at_end = isinstance(found, File) and "O_APPEND" in given
        self._open[number] = (found, len(found.content) if at_end else 0)  # type: ignore[union-attr]
        return creates or "O_TRUNC" in given

    def _written(self, number: int, data: bytes) -> bool:
        if number == 1:
            self.printed += data.decode()
            return False
        if number not in self._open:
            return False
        file, at = self._open[number]
        assert isinstance(file, File)
        file.content[at : at + len(data)] = data
        self._open[number] = (file, at + len(data))
        return True

    def _copied(self, number: int, source: int, length: int) -> bool:
        if number not in self._open or not length:
            return False
        file, at = self._open[source]
        assert isinstance(file, File)
        self._open[source] = (file, at + length)
        return self._written(number, bytes(file.content[at : at + length]))

    def _synced(self, number: int) -> bool:
        if number not in self._open:
            return False
        found, _ = self._open[number]
        if isinstance(found, File):
            found.synced = bytes(found.content)
        else:
            found.synced = dict(found.names)
        return True

    def _renamed_or_removed(self, name: str, paths: Sequence[str], given: str) -> bool:
        folder = self._open.get(int(given.split("<")[0])) if name == "unlinkat" else None
        parent, last = (folder[0], paths[0]) if folder else self._find(paths[0])
        if not isinstance(parent, Folder):
            return False
        if name == "mkdir":
            parent.names[last] = Folder()
        elif name == "rename":
            onto, target = self._find(paths[1])
            assert onto is not None
            onto.names[target] = parent.names.pop(last)
        else:
            parent.names.pop(last, None)
        return True

    def _find(self, path: str) -> tuple[Folder | None, str]:
        """The folder that a path's last name is in; None where that is not ours."""
        given = Path(path)
        if not given.is_relative_to(self.root):
            return None, ""
        *above, last = given.relative_to(self.root).parts or ("",)
        folder: File | Folder | None = self.top
        for part in above:
            folder = folder.names.get(part) if isinstance(folder, Folder) else None
        return (folder, last) if isinstance(folder, Folder) else (None, "")


def _leave(folder: Folder, into: Path, names_first: bool) -> None:
    into.mkdir()
    names = folder.names if names_first else folder.synced
    for name, found in names.items():
        if isinstance(found, Folder):
            _leave(found, into / name, names_first)
        else:
            (into / name).write_bytes(found.synced)
