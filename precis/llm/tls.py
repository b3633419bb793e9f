"""TLS certificates, read once and on demand.

Reading them takes 0.1 to 0.2 s, which httpx spends on every new client.
"""

import ssl
from functools import cache

import httpx


def tls_for(url: str | httpx.URL) -> ssl.SSLContext:
    """Return the TLS context for a client of an address: an empty one for plain HTTP."""
    if httpx.URL(url).scheme == "https":
        return _verifying()
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


_verifying = cache(httpx.create_ssl_context)
