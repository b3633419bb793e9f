"""HTTP connections: responses of untrusted servers are bounded in size and without our keys.

Every response is read here before it is parsed. A server may send without end, or a small body that
unpacks to a large one, and it may quote the key.
"""

import ssl
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

import httpx

from precis.errors import ConfigError
from precis.llm.redaction import Redactor

ONE_CONNECTION = httpx.Limits(max_connections=1, max_keepalive_connections=1)
REPLY_BYTES_MAX = 4 * 2**20
"""The largest reply, unpacked: a hundred times that of a summary with its logprobs."""

# zlib's `wbits`: 15 for the largest window, and 32 to detect which of the two a reply is.
_GZIP_OR_ZLIB = 47
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class ReplyTooLarge(httpx.ReadError):
    """A reply exceeded the size limit."""


class BoundedClient(httpx.AsyncClient):
    """An HTTP client for one server, whose responses are complete, bounded and free of a key.
    Raises ConfigError if the environment names a proxy that can't be used.

    Args:
        key: removed from every response and error, like the address's password.
        bytes_max: the largest response, unpacked.
    """

    def __init__(
        self, url: str, key: str, *, bytes_max: int = REPLY_BYTES_MAX, **options: Any
    ) -> None:
        address = httpx.URL(url)
        # A proxy from the environment can't reach a server on this machine.
        trust_env = address.host not in _LOOPBACK
        try:
            super().__init__(verify=tls_for(url), trust_env=trust_env, **options)
        except UnicodeEncodeError:  # of a key: a ValueError too
            raise
        except (ImportError, ValueError, httpx.InvalidURL) as error:  # of SOCKS, or no address
            is_no_url = isinstance(error, httpx.InvalidURL)  # what it says may hold a password
            why = "it is no address" if is_no_url else str(error).rstrip(".")
            raise ConfigError(
                f"A proxy of this shell can't be used: {why}.",
                "Unset it (ALL_PROXY, HTTPS_PROXY, HTTP_PROXY), or name an http:// proxy.",
            ) from error
        self._redactors = [Redactor(secret) for secret in (key, address.password) if secret]
        self._bytes_max = bytes_max

    async def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        """Send a request and read the complete response. Raises ReplyTooLarge beyond
        `bytes_max`."""
        request.headers["Accept-Encoding"] = "gzip"
        try:
            response = await super().send(request, **{**options, "stream": True})
            try:
                content = await self._read(response)
            finally:
                await response.aclose()
        except (httpx.RequestError, httpx.InvalidURL, UnicodeError) as error:
            # It may quote the server, and so may its causes.
            said = self._clean(str(error).encode("utf-8", "replace")).decode("utf-8", "replace")
            if isinstance(error, httpx.RequestError):
                raise type(error)(said, request=request) from None
            # The reply redirects to what is no address.
            raise httpx.RemoteProtocolError(said, request=request) from None
        # The response as if it had not been compressed.
        told = ("content-encoding", "content-length", "transfer-encoding")
        headers = []
        for name, value in response.headers.raw:
            if name.decode("latin-1").lower() not in told:
                headers.append((name, self._clean(value)))
        return httpx.Response(
            response.status_code,
            headers=headers,
            content=self._clean(content),
            request=response.request,
        )

    async def _read(self, response: httpx.Response) -> bytes:
        """Unpack a response up to the size limit."""
        encoding = response.headers.get("content-encoding", "").strip().lower()
        unpack = None
        if encoding in ("gzip", "x-gzip", "deflate"):
            unpack = zlib.decompressobj(_GZIP_OR_ZLIB)
        elif encoding not in ("", "identity"):
            what = f"The reply is packed as {encoding[:40]!r}; gzip was asked for."
            raise httpx.DecodingError(what)
        content = bytearray()
        async for chunk in response.aiter_raw():
            try:
                room = self._bytes_max - len(content) + 1
                content += unpack.decompress(chunk, room) if unpack else chunk
            except zlib.error as error:
                raise httpx.DecodingError(f"The reply can't be unpacked ({error}).") from error
            if len(content) > self._bytes_max:
                raise ReplyTooLarge(f"The reply is larger than {self._bytes_max / 2**20:g} MiB.")
            if unpack and unpack.eof:
                break
        return bytes(content)

    def _clean(self, content: bytes) -> bytes:
        for redactor in self._redactors:
            content = redactor.clean(content)
        return content


class ClientPool:
    """Clients of one kept-alive connection each, most recently used first.

    httpcore's own pool scans all its connections several times in every request. `open_client`
    makes a client with the limits ONE_CONNECTION.
    """

    def __init__(self, open_client: Callable[[], httpx.AsyncClient]) -> None:
        self._open = open_client
        self._all: list[httpx.AsyncClient] = []
        self._free: list[httpx.AsyncClient] = []

    @asynccontextmanager
    async def client(self) -> AsyncIterator[httpx.AsyncClient]:
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
        for client in tuple(self._all):
            await client.aclose()


def tls_for(url: str | httpx.URL) -> ssl.SSLContext:
    """Return the TLS context for a client of an address: an empty one for plain HTTP."""
    if httpx.URL(url).scheme == "https":
        return _verifying()
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


_verifying = cache(httpx.create_ssl_context)
"""Reading the certificates takes 0.1 to 0.2 s, which httpx spends on every new client."""
