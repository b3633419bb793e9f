"""HTTP connections to one server, without a pool's price for having many of them."""

import httpx

from precis.llm.providers import Endpoint
from precis.llm.responses import BoundedClient

_CONNECT_TIMEOUT_S = 10.0


class ConnectionPool:
    """Clients of one kept-alive connection each; the one that was used last goes first.

    httpcore's pool walks over all its connections, and over all again for each of them, with every
    request: at 32 connections more time than everything else that a call costs here.
    """

    def __init__(self, endpoint: Endpoint, call_timeout_s: float) -> None:
        self._url = httpx.URL(f"{endpoint.base_url}/chat/completions")
        self._key = endpoint.api_key
        self._headers = {
            "Authorization": f"Bearer {endpoint.api_key}",
            "Content-Type": "application/json",
        }
        self._timeout = httpx.Timeout(call_timeout_s, connect=_CONNECT_TIMEOUT_S)
        self._all: list[BoundedClient] = []
        self._free: list[BoundedClient] = []

    async def post(self, content: bytes) -> httpx.Response:
        """Send a request and read the whole response; see `BoundedClient.send`."""
        if self._free:
            client = self._free.pop()
        else:
            client = BoundedClient(
                str(self._url),
                self._key,
                headers=self._headers,
                timeout=self._timeout,
                limits=httpx.Limits(max_connections=1, max_keepalive_connections=1),
            )
            self._all.append(client)
        try:
            response = await client.post(self._url, content=content)
        except BaseException:
            # A request that is given up while it connects leaves httpcore's pool (1.0.9) with a
            # connection that is neither in use nor free, for good: the client goes with it.
            self._all.remove(client)
            await client.aclose()
            raise
        self._free.append(client)
        return response

    async def close(self) -> None:
        """Close all connections."""
        for client in tuple(self._all):
            await client.aclose()
