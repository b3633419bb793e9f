"""What trainer and store vouch for is there after a loss of power, wherever it strikes.

A file's content is on the disk as of its last `fsync`, and so are the names in a folder. What else
a loss of power leaves is up to the file system; two are tried: nothing of what was not synced, and
every name, with nothing in the files (`names_first`). Before and after each call that syncs or
changes names, what a disk would have then is read as the next trainer and the next run read it.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from precis.records.manifests import pointer_key
from precis.rehearsal.checkpoint_files import initial_state, load, save
from precis.rehearsal.extractive.kind import SENTENCES
from precis.rehearsal.train_step import advance
from precis.runs.checkpoints import commit, committed_steps, restore
from precis.store import open_store
from precis.trainer.journal import Journal
from precis.trainer.protocol import TrainedStep

STEPS = 2
CALLS = ("fsync", "mkdir", "rename", "replace", "rmdir", "unlink")

Events = list[tuple[str, int]]


def train(root: Path) -> Iterator[tuple[str, int]]:
    """Train and commit; yield each step that is then vouched for."""
    trainer, store = root / "trainer", open_store(str(root / "store"))
    journal, state = Journal(trainer), initial_state(SENTENCES.layout, 1)
    journal.forget()
    save(trainer, state, SENTENCES.layout)
    journal.belongs("run")
    commit(store, "m", 0, journal.checkpoint(0), "config", run="run")
    for step in range(STEPS):
        journal.began(step, f"{step:064x}", {})
        state = advance(state)
        save(trainer, state, SENTENCES.layout, {"loss": 1.0})
        result = {"step": step + 1, "metrics": {"loss": 1.0}}
        journal.finished(step, TrainedStep(digest=f"{step:064x}", result=result, note={}))
        yield "trained", step + 1
        commit(store, "m", step + 1, journal.checkpoint(step + 1), "config", run="run")
        yield "committed", step + 1


Names = dict[str, tuple[int, bool]]
"""The names in a folder, each with its inode, and whether that is a folder."""


def names_in(folder: Path) -> Names:
    with os.scandir(folder) as entries:
        return {entry.name: (entry.inode(), entry.is_dir()) for entry in entries}


class Disk:
    """The files' contents and the folders' names below a root, by inode, as of their last `fsync`.

    Args:
        held: keeps all synced files open, so that none of their inodes is used again.
    """

    def __init__(self, root: Path, held: ExitStack) -> None:
        self._root = root
        self._held = held
        self._contents: dict[int, bytes] = {}
        self._names: dict[int, Names] = {}

    def sync(self, descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        inode = os.fstat(descriptor).st_ino
        if not path.is_relative_to(self._root):
            return
        self._held.callback(os.close, os.dup(descriptor))
        if path.is_dir():
            self._names[inode] = names_in(path)
        else:
            self._contents[inode] = path.read_bytes()

    def leave(self, into: Path, names_first: bool) -> None:
        """Write what a loss of power now would leave to a folder."""
        self._leave(self._root, self._root.stat().st_ino, into, names_first)

    def _leave(self, folder: Path, inode: int, into: Path, names_first: bool) -> None:
        into.mkdir()
        names = names_in(folder) if names_first else self._names.get(inode, {})
        for name, (inside, is_folder) in names.items():
            if is_folder:
                self._leave(folder / name, inside, into / name, names_first)
            else:
                (into / name).write_bytes(self._contents.get(inside, b""))


@pytest.mark.parametrize("names_first", [False, True], ids=["nothing", "names first"])
def test_what_is_vouched_for_outlasts_a_loss_of_power(
    names_first: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, left = tmp_path / "root", tmp_path / "left"
    root.mkdir()
    said: Events = []
    cuts = 0
    looks = False

    def look() -> None:
        nonlocal cuts, looks
        cuts += 1
        looks = True
        disk.leave(left, names_first)
        check(left, said, tmp_path / "restored")
        shutil.rmtree(left)
        looks = False

    def cut_around(act: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: Any, **options: Any) -> object:
            if looks:
                return act(*arguments, **options)
            look()
            result = act(*arguments, **options)
            look()
            return result

        return call

    with ExitStack() as held:
        disk = Disk(root, held)
        monkeypatch.setattr(os, "fsync", disk.sync)
        for name in CALLS:
            monkeypatch.setattr(os, name, cut_around(getattr(os, name)))
        for event in train(root):
            said.append(event)
    assert said[-1] == ("committed", STEPS)
    assert cuts > 100


def check(left: Path, said: Events, into: Path) -> None:
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
    for event, number in said:
        if event == "trained":
            assert number in here
        else:
            assert number in there
            assert newest >= number
