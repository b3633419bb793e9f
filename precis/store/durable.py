"""Files that outlast a loss of power: what is vouched for is on the disk before the word for it.

A file that was written and closed may still be lost with the machine's power, and so may its name,
which belongs to the folder that it is in.
"""

import os
from pathlib import Path


def make_folder(folder: Path, mode: int | None = None) -> None:
    """Make a folder, and those above it that are missing, with these permissions or the process's
    own; each name is on the disk."""
    if folder.is_dir():
        return
    make_folder(folder.parent, mode)
    folder.mkdir(exist_ok=True)
    if mode is not None:
        folder.chmod(mode)
    sync(folder.parent)


def move(fresh: Path, target: Path) -> None:
    """Have a file or a folder take another's name in one move, once all of it is on the disk."""
    sync_tree(fresh)
    os.replace(fresh, target)
    sync(target.parent)


def sync_tree(path: Path) -> None:
    """Bring a file, or a folder with all that is in it, to the disk."""
    if path.is_dir():
        for inside in path.iterdir():
            sync_tree(inside)
    sync(path)


def sync(path: Path) -> None:
    """Bring a file's content, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
