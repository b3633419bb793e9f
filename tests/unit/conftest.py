"""What many unit tests begin with."""

from pathlib import Path

import pytest

from precis.store import FolderStore


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    """An empty store; a file whose runs lie in one has a fixture of its own."""
    return FolderStore(tmp_path / "store")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first, so that no process is at work on them when the others are done."""
    items.sort(key=lambda item: item.path.name != "test_kills.py")
