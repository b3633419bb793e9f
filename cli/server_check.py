"""Requests to a Prefect server by Prefect's own client, which sends its password or API key."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
from prefect.client.base import ServerType
from prefect.client.orchestration import PrefectClient, SyncPrefectClient
from prefect.exceptions import PrefectException
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, Settings, temporary_settings

from precis.errors import ConfigError, PrecisError

_CHECK_TIMEOUT_S = 10.0
_LOOK_TIMEOUT_S = 2.0
_VERSION = re.compile(r"\d+\.\d+[\w.+-]*", re.ASCII)


async def check_server(api: str) -> str:
    """Check that a Prefect server answers, or Prefect Cloud, and accepts our password or key."""
    try:
        with _options(_CHECK_TIMEOUT_S) as options:
            async with PrefectClient(api, **options) as client:
                if client.server_type == ServerType.CLOUD:
                    await client.read_flows(limit=1)  # Cloud does not tell its version
                    return f"Prefect Cloud at {api}"
                version = await client.api_version()
    except httpx.HTTPStatusError as error:
        if error.response.status_code in (401, 403):
            raise ConfigError(
                f"The Prefect server at {api} refuses our password or key.",
                "Set PREFECT_API_AUTH_STRING to its `user:password`, or for Prefect Cloud "
                "PREFECT_API_KEY.",
            ) from error
        raise PrecisError(
            f"{api} does not answer as a Prefect server: {failure_of(error)}.",
            "See whether PREFECT_API_URL is the address of a Prefect server, which ends with /api, "
            "and if it is, its log.",
        ) from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise PrecisError(
            f"The Prefect server at {api} does not answer ({failure_of(error)}).",
            "Start it, or unset PREFECT_API_URL and let `precis up` start one.",
        ) from error
    except OSError as error:
        raise ConfigError(
            f"No secure connection to {api} can be made ({error}).",
            "See whether SSL_CERT_FILE, or PREFECT_API_SSL_CERT_FILE, names certificates.",
        ) from error
    except ValueError:
        version = ""
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        raise ConfigError(
            f"The server at {api} is not a Prefect server's API.",
            "Set PREFECT_API_URL to the address of one, which ends with /api.",
        )
    return f"server {version} at {api}"


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Raise a PrecisError, that the server did not do `what`, where it fails within the block."""
    try:
        yield
    except (httpx.HTTPError, PrefectException) as error:
        raise PrecisError(
            f"The Prefect server did not {what}: {failure_of(error)}.", "See the server's log."
        ) from None


def failure_of(error: Exception) -> str:
    """Return why a request failed, without the words of the server, which may repeat a key."""
    answer = getattr(error, "response", None)
    if answer is not None:
        return f"it answered {answer.status_code}"
    return str(error) or type(error).__name__  # a timeout has no text


def answers(api: str) -> bool:
    """Return whether a configured server answers now."""
    with _options(_LOOK_TIMEOUT_S) as options, SyncPrefectClient(api, **options) as client:
        return client.api_healthcheck() is None


@contextmanager
def _options(timeout_s: float) -> Iterator[dict[str, Any]]:
    """Yield a client's arguments, for requests that are not retried.

    Password and key are read anew, since ours may have been set after Prefect was imported.
    """
    given = Settings().api
    with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}):
        yield {
            "auth_string": given.auth_string.get_secret_value() if given.auth_string else None,
            "api_key": given.key.get_secret_value() if given.key else None,
            "httpx_settings": {"timeout": timeout_s},
        }
