"""HTTP connections to one server, without a pool's price for having many of them."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar

import httpx

from precis.llm.providers import Endpoint
from precis.llm.responses import BoundedClient

C = TypeVar("C", bound=httpx.AsyncClient)

ONE_CONNECTION = httpx.Limits(max_connections=1, max_keepalive_connections=1)
_CONNECT_TIMEOUT_S = 10.0


class ClientPool(Generic[C]):
    """Clients of one kept-alive connection each; the one that was used last goes first.

    httpcore's own pool walks over all its connections several times with every request.

    Args:
        open_client: makes one, with the limits ONE_CONNECTION.
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
            # A request that is given up while it connects leaves httpcore's pool (1.0.9) with a
            # connection that is neither in use nor free, for good: the client goes with it.
            self._all.remove(client)
            await client.aclose()
            raise
        self._free.append(client)

    async def close(self) -> None:
        """Close all connections."""
        for client in tuple(self._all):
            await client.aclose()


class ConnectionPool(ClientPool[BoundedClient]):
    """Connections to an endpoint's chat completions."""

    def __init__(self, endpoint: Endpoint, call_timeout_s: float) -> None:
        self._url = httpx.URL(f"{endpoint.base_url}/chat/completions")
        headers = {
            "Authorization": f"Bearer {endpoint.api_key}",
            "Content-Type": "application/json",
        }
        timeout = httpx.Timeout(call_timeout_s, connect=_CONNECT_TIMEOUT_S)
        super().__init__(
            lambda: BoundedClient(
                str(self._url),
                endpoint.api_key,
                headers=headers,
                timeout=timeout,
                limits=ONE_CONNECTION,
            )
        )

    async def post(self, content: bytes) -> httpx.Response:
        """Send a request and read the whole response (`BoundedClient`).

        Raises:
            ReplyTooLarge: it has no end, or is far too long.
            httpx.RequestError: anything else failed.
        """
        async with self.client() as client:
            return await client.post(self._url, content=content)
