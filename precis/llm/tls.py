"""Certificates are read where they are needed, and once.

Reading them takes a tenth of a second or two, which httpx spends on every new client.
"""

import ssl
from functools import cache

import httpx


def tls_for(url: str | httpx.URL) -> ssl.SSLContext:
    """Return the TLS context for a client of this address: an empty one where it is plain HTTP."""
    if httpx.URL(url).scheme == "https":
        return _verifying()
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


_verifying = cache(httpx.create_ssl_context)
