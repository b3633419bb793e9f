"""Files that survive a loss of power: each is on the disk before another file refers to it.

A file that was written and closed may still be lost with the machine's power, and so may its name,
which is part of its folder.
"""

import os
from pathlib import Path


def make_folder(folder: Path, mode: int | None = None) -> None:
    """Make a folder and its missing parents, with these permissions or the process's default, and
    sync each name to the disk."""
    if folder.is_dir():
        return
    make_folder(folder.parent, mode)
    folder.mkdir(exist_ok=True)
    if mode is not None:
        folder.chmod(mode)
    sync(folder.parent)


def move(fresh: Path, target: Path) -> None:
    """Sync a file or a folder to the disk, then rename it over another in one move."""
    sync_tree(fresh)
    os.replace(fresh, target)
    sync(target.parent)


def write_text(path: Path, text: str) -> None:
    """Replace a small file in one move; its folder is made if it is missing."""
    make_folder(path.parent)
    fresh = path.with_suffix(".tmp")
    fresh.write_text(text)
    move(fresh, path)


def sync_tree(path: Path) -> None:
    """Sync a file, or a folder with all its files, to the disk."""
    if path.is_dir():
        for inside in path.iterdir():
            sync_tree(inside)
    sync(path)


def sync(path: Path) -> None:
    """Sync a file's content, or a folder's names, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
