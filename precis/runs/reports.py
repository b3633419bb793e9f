"""The report of a run's newest benchmark, as a file that a browser can open."""

import re
import shutil
from pathlib import Path

from precis.environment import private_home
from precis.errors import StoreError
from precis.records.ledger import load_ledger
from precis.store import Store
from precis.store.folder import FolderStore

_REPORT = re.compile(r"benchmarks/(\d{4,})(-[0-9a-f]{8})?/report\.html")


def report_file(store: Store, model: str) -> Path:
    """Return the newest report of the newest step; a StoreError says that there is none, or no such
    run.

    A report on the held-out documents goes before others. From a bucket it is copied.
    """
    # The step of each report, whether it is of the held-out documents, its key.
    found = []
    prefix = f"{model}/"
    for key in store.keys(f"{prefix}benchmarks/"):
        match = _REPORT.fullmatch(key.removeprefix(prefix))
        if match:
            found.append((int(match[1]), match[2] is None, key))
    if not found:
        load_ledger(store, model)  # a name that is wrong is said to be
        raise StoreError(f"{store.url} holds no report of {model!r}: it had no benchmark yet.")
    _, _, key = max(found)
    if isinstance(store, FolderStore):
        return (store.root / key).resolve()
    copy = _copies_folder() / key
    copy.parent.mkdir(parents=True, exist_ok=True)
    store.download(key, copy)
    return copy


def page_file(model: str, name: str) -> Path:
    """Return where a page about a run is written on this machine; its folder may be missing."""
    return _copies_folder() / model / name


def delete_report_copies(model: str) -> None:
    """Delete a model's pages on this machine, and its reports that were brought from a bucket."""
    shutil.rmtree(_copies_folder() / model, ignore_errors=True)


def _copies_folder() -> Path:
    return private_home().absolute() / "reports"  # a browser takes no other path
