"""The servers of `precis model serve` on this machine, and their keys.

Each has a file in `servers/` in our home, readable by its owner only, and locked while the server
lives: without the lock another process may listen at that address by now.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pydantic import Field, ValidationError

from precis.environment import Variables, private_home
from precis.llm.providers import SERVER_KEY_VARIABLE, Endpoint
from precis.record import Record

_FOLDER = "servers"
_BYTES_MAX = 4096


class Server(Record):
    """An OpenAI-compatible server of this user; its URL ends in `/v1`."""

    url: str
    key: str = Field(repr=False)

    def endpoint(self, model: str, role: str = "server") -> Endpoint:
        return Endpoint(self.url, model, self.key, key_variable=SERVER_KEY_VARIABLE, role=role)


@contextmanager
def announced(server: Server) -> Iterator[int]:
    """Register a server for this user's other commands within the block; yield the descriptor of
    its lock: it counts as alive while any process holds that."""
    folder = private_home() / _FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / f"{server.url.partition('://')[2].replace('/', '_')}.json"
    new = path.with_suffix(f".{os.getpid()}")
    with open(new, "w", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(server.model_dump_json())
        file.flush()
        os.replace(new, path)
        try:
            yield file.fileno()
        finally:
            path.unlink(missing_ok=True)


def own_servers() -> list[Server]:
    """Return the live servers; delete the files of killed ones."""
    found = []
    for path in sorted((Variables().home / _FOLDER).glob("*.json")):
        with suppress(FileNotFoundError, ValidationError), path.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                found.append(Server.model_validate_json(file.read(_BYTES_MAX)))
                continue
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):  # not a newer server's
                path.unlink()
    return found
