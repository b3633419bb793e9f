"""HTTP connections to one server, at a cost independent of their number."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

import httpx

C = TypeVar("C", bound=httpx.AsyncClient)

ONE_CONNECTION = httpx.Limits(max_connections=1, max_keepalive_connections=1)


class ClientPool(Generic[C]):
    """Clients of one kept-alive connection each, most recently used first.

    httpcore's own pool scans all its connections several times in every request.

    Args:
        open_client: makes a client with the limits ONE_CONNECTION.
    """

    def __init__(self, open_client: Callable[[], C]) -> None:
        self._open = open_client
        self._all: list[C] = []
        self._free: list[C] = []

    @asynccontextmanager
    async def client(self) -> AsyncIterator[C]:
        """Lend a client for one request."""
        if self._free:
            client = self._free.pop()
        else:
            client = self._open()
            self._all.append(client)
        try:
            yield client
        except BaseException:
            # A request cancelled while connecting leaves httpcore's pool (1.0.9) with a connection
            # that is neither in use nor free, for good: the client is dropped.
            self._all.remove(client)
            await client.aclose()
            raise
        self._free.append(client)

    async def close(self) -> None:
        """Close all connections."""
        for client in tuple(self._all):
            await client.aclose()
