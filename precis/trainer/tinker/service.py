"""The Tinker service's own client, with our deadlines and our errors.

The client tries again by itself, whatever happens, and for as long as it takes; so each call has a
deadline here. What it raises is translated in one place:

    the key is refused            ConfigError: a person has to act
    the request is refused        TrainerError: the same request would be refused again
    anything else                 TrainerLost: a new session may well continue from what was saved
"""

import asyncio
import logging
import os
import re
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Thread
from typing import Any, NoReturn, TypeVar

import httpx
import tinker

from precis.errors import ConfigError, PrecisError, TrainerError, TrainerLost
from precis.llm.connections import tls_for
from precis.llm.redaction import Redactor
from precis.settings.tinker import TinkerTrainer
from precis.trainer.tinker.check import check_key

T = TypeVar("T")

_NO_KEY = "tml-none"
"""The key for a SkyRL server where none is set: the client insists on one, SkyRL on none."""
_SHORT_S = 300.0
_CONNECT_S = 10.0
_STATUS = re.compile(r"\bstatus (\d{3})\b")
"""The form of the HTTP status in the client's errors that have no attribute for it."""
_TEXT_MAX = 500


@dataclass(frozen=True)
class TinkerService:
    """The address of a served Tinker API, None for the client's own, and the account's key."""

    address: str | None
    key: str = field(repr=False)

    def __post_init__(self) -> None:
        """Have the client tell nobody the key: what it would send home about failed requests has it
        in it, and so may its log, since servers quote it."""
        os.environ["TINKER_TELEMETRY"] = "0"
        log = logging.getLogger("tinker")
        handler = logging.StreamHandler()
        handler.setFormatter(_Redacted(Redactor(self.key)))
        log.handlers = [handler]
        log.setLevel(logging.WARNING)
        log.propagate = False

    @property
    def name(self) -> str:
        return f"The Tinker service at {self.address}" if self.address else "The Tinker service"

    async def connect(self) -> tinker.ServiceClient:
        """Open a session; a ConfigError says that the key is refused, a TrainerLost that nothing
        answers."""

        def open_client() -> tinker.ServiceClient:
            # Without an address the client takes TINKER_BASE_URL, or else its makers' own.
            client = tinker.ServiceClient(api_key=self.key, base_url=self.address)
            # Both connect, and block meanwhile; later even the client's own coroutines would.
            _ = client.holder
            _ = client._get_rest_holder()
            return client

        return await self.ask("open a session", run_apart(open_client))

    async def list_models(self) -> list[str]:
        """Return the base models that it serves; a TrainerLost says that nothing listens at its
        address."""
        if self.address is not None:  # the client would try for minutes
            tls = tls_for(self.address)
            try:
                async with httpx.AsyncClient(timeout=_CONNECT_S, verify=tls) as http:
                    await http.get(f"{self.address}/api/v1/healthz")
            except httpx.TransportError as error:
                raise TrainerLost(
                    f"{self.name} does not answer ({error or type(error).__name__}).",
                    "See whether it is up, and whether trainer.base_url is its address.",
                ) from error
        client = tinker.ServiceClient(api_key=self.key, base_url=self.address)
        try:
            served = await run_apart(client.get_server_capabilities)
        finally:
            await close_client(client)
        return [one.model_name or "" for one in served.supported_models]

    async def ask(
        self,
        what: str,
        asked: Awaitable[T],
        deadline_s: float = _SHORT_S,
        *,
        is_saved: bool = False,
    ) -> T:
        """Wait for an answer, for so long.

        Raises ConfigError where the key is refused, TrainerError where the request is, and else
        TrainerLost; what the service has saved (`is_saved`) and lost stays lost.
        """
        try:
            async with asyncio.timeout(deadline_s):
                return await asked
        except PrecisError:
            raise
        except TimeoutError:
            raise TrainerLost(f"{self.name} did not {what} within {deadline_s:.0f} s.") from None
        except Exception as error:
            self._raise_ours(what, error, is_saved)

    def _raise_ours(self, what: str, error: Exception, is_saved: bool) -> NoReturn:
        """Raise the error as one of ours; without its cause, whose text may quote the key."""
        text = Redactor(self.key).clean_text(" ".join(str(error).split()))[:_TEXT_MAX]
        said = f"{type(error).__name__}: {text}"
        found = _STATUS.search(str(error))
        status = int(found.group(1)) if found else None
        if isinstance(error, tinker.APIStatusError):
            status = error.status_code
        if status in (401, 403):
            raise ConfigError(
                f"{self.name} refuses TINKER_API_KEY ({said}).", "Set a valid key, here or in .env."
            ) from None
        if status == 402:
            raise ConfigError(f"{self.name} wants the account to be paid for ({said}).") from None
        user = tinker.types.RequestErrorCategory.User
        is_users = isinstance(error, tinker.RequestFailedError) and error.category is user
        if status in (400, 413, 422) or is_users:
            raise TrainerError(f"{self.name} refuses to {what}: {said}") from None
        if status == 404 and is_saved:
            raise TrainerError(
                f"{self.name} can't {what}, which it no longer has, and takes no weights from "
                f"elsewhere: {said}",
                "Go back to a step that it has with `precis runs restart`.",
            ) from None
        raise TrainerLost(f"{self.name} could not {what}: {said}") from None


async def run_apart(work: Callable[[], T]) -> T:
    """Run blocking work in a thread that does not outlast the process: the client can block for
    minutes, and at its end a process waits for the threads of `asyncio.to_thread`."""
    done: Future[T] = Future()
    done.set_running_or_notify_cancel()  # from here on it can't be cancelled, only left alone

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    Thread(target=run, daemon=True).start()
    return await asyncio.wrap_future(done)


async def close_client(client: tinker.ServiceClient) -> None:
    """End heartbeats and connections, some of which the client would leave open."""
    for holder in (client._session_holder, client._rest_holder):
        if holder is not None:
            await holder.run_coroutine_threadsafe(_close_holder(holder))


async def _close_holder(holder: Any) -> None:
    """Close one of a client's holders; to be run in the client's own loop."""
    await holder._async_cleanup()
    for pool in holder._client_pools.values():
        for client in pool._clients:
            await client.close()


class _Redacted(logging.Formatter):
    """Lines without a key."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__("%(message)s")
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        return self._redactor.clean_text(super().format(record))


def find_service(settings: TinkerTrainer) -> TinkerService:
    """Return the service of some settings, with the key of the environment; a ConfigError says that
    there is no key, or it is none."""
    return TinkerService(settings.address, check_key(settings) or _NO_KEY)
