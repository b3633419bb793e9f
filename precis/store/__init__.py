"""The store of checkpoints, ledgers and results: a folder, or a bucket."""

from precis.store.folder import FolderStore
from precis.store.opening import open_store
from precis.store.protocol import Blob, Store

__all__ = ["Blob", "FolderStore", "Store", "open_store"]
