"""What many unit tests begin with."""

from pathlib import Path

import pytest

from precis.store import FolderStore


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    """An empty store; a file whose runs lie in one has a fixture of its own."""
    return FolderStore(tmp_path / "store")
