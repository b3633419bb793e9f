"""The Prefect server in use: the configured one, or our own.

Prefect's ephemeral mode would take five seconds at every start and show nothing in a browser; a
real server on SQLite stays up and shows the run during and after it. It requires a password:
otherwise any web page that the user visits could have it run code.
"""

import asyncio
import os
import shlex
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx

from cli import prefect_process as process
from cli.prefect_settings import find_api_url, secrets_for
from precis.environments.programs import bypass_proxy
from precis.errors import ConfigError, PrecisError, without_passwords
from precis.llm.connections import BoundedClient, tls_for

_READY_TIMEOUT_S = 180.0
_LOOK_S = 0.5
_ASK_S = 5.0
_LOST_AFTER_S = 40.0

stop = process.stop


@dataclass(frozen=True)
class PrefectServer:
    """A Prefect server, which may still be starting if it is ours.

    Attributes:
        ours: whether it is in our home, where `stop` finds it.
        started: whether this call has started it.
    """

    api: str
    ours: bool
    started: bool = False

    @property
    def ui(self) -> str:
        return without_passwords(self.api.removesuffix("/api"))

    @property
    def show_password(self) -> str | None:
        """The shell command that shows the `user:password` of its pages, if it is ours."""
        return f"cat {shlex.quote(str(process.home() / 'password'))}" if self.ours else None

    async def wait(self) -> None:
        """Return once it answers. Raises PrecisError if it has not after three minutes, or has
        ended."""
        deadline = time.monotonic() + _READY_TIMEOUT_S
        while not await asyncio.to_thread(self.answers):
            if time.monotonic() > deadline or (self.ours and not process.is_up()):
                hint = f"Its log: {process.home() / 'server.log'}." if self.ours else "Is it up?"
                raise PrecisError(f"The Prefect server at {self.api} does not answer. {hint}")
            await asyncio.sleep(0.1)

    async def lost(self) -> None:
        """Return once it has not answered for forty seconds, or ours is neither running nor
        starting."""
        last = time.monotonic()
        while time.monotonic() < last + _LOST_AFTER_S:
            await asyncio.sleep(_ASK_S)
            ours = self.ours and await asyncio.to_thread(process.is_up)
            if ours or await asyncio.to_thread(self.answers):
                last = time.monotonic()

    def answers(self) -> bool:
        """Return whether the server answers now."""
        if self.ours:
            return _is_healthy(self.api)
        from cli.server_check import answers  # imports Prefect

        return answers(self.api)


def find() -> str | None:
    """Return the API address of the configured server, or of our own if that runs."""
    return find_api_url() or _running()


async def check() -> str:
    """Check the server that we would use; having none is fine. Raises PrecisError if it does not
    answer, is not a Prefect server, or refuses our password or key."""
    api = find()
    if api is None:
        return "no server is up; `precis up` starts one"
    _use(api)
    from cli.server_check import check_server  # imports Prefect, which then reads the address

    return await check_server(api)


def attach() -> str:
    """Point this process at the configured or running server; return its API address.

    Call before `prefect` is imported. Raises PrecisError if there is none, or it does not answer,
    or refuses our password or key.
    """
    api = find()
    if api is None:
        raise PrecisError(
            "No Prefect server is configured or up: set PREFECT_API_URL, or run `precis up`."
        )
    asyncio.run(check())
    return api


def find_or_start(*, share: bool = False, port: int | None = None) -> PrefectServer:
    """Return the configured server, which answers, or one of our own, which may still be starting.

    Our own may be configured too, as by the lines that `precis up` prints.
    Also points this process at it; call before `prefect` is imported. Raises ConfigError if the
    server can't be shared or has another port, or the port is in use.
    """
    configured = find_api_url()
    # Another server may have the port of our last one.
    if configured and (
        configured != process.address() or (not process.is_up() and _is_healthy(configured))
    ):
        server = PrefectServer(configured, ours=False)
        _check_found(server, share, port)
        asyncio.run(check())
        return server
    os.environ.update(process.SETTINGS)
    os.environ["PREFECT_HOME"] = str(process.home())
    host = "0.0.0.0" if share else process.LOOPBACK
    started = _running() is None and process.start(host, port)
    server = PrefectServer(process.address() or "", ours=True, started=started)
    try:
        if not started:
            _check_found(server, share, port)
        _use(server.api)
    except ConfigError:
        if started:
            stop()
        raise
    return server


@asynccontextmanager
async def keep_running(server: PrefectServer, say: Callable[[str], None]) -> AsyncIterator[None]:
    """Within the block, restart the server if it is ours and dies.

    The new process answers pending requests' retries: it has the old one's port and data.
    """
    watching = asyncio.create_task(_watch(server, say)) if server.ours else None
    try:
        yield
    finally:
        if watching is not None:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching


async def _watch(server: PrefectServer, say: Callable[[str], None]) -> None:
    while True:
        await asyncio.sleep(_LOOK_S)
        try:
            if await asyncio.to_thread(process.start_again):
                say("The Prefect server had died, and was restarted.")
                await server.wait()  # a server that keeps dying is not restarted for ever
        except (OSError, PrecisError) as error:
            say(f"The Prefect server has died, and can't be restarted: {error}")
            return


def _use(api: str) -> None:
    """Point this process and its children at a server, with its password or key. Raises ConfigError
    if a proxy is set that no client can use."""
    BoundedClient("http://any", "")  # each client of Prefect would meet the same proxy
    secrets = secrets_for(api)
    password = process.password() if api == process.address() else None
    if password:
        secrets["PREFECT_API_AUTH_STRING"] = password
    # An empty variable keeps Prefect's client from taking that of a file.
    os.environ.update(secrets, PREFECT_API_URL=api)
    bypass_proxy(os.environ)


def _check_found(server: PrefectServer, share: bool, port: int | None) -> None:
    """Raise ConfigError if a server that is there already does not match the request."""
    other_port = port is not None and urlsplit(server.api).port != port
    if share or other_port:
        option, can = ("--share", "be shared") if share else ("--port", "be given a port")
        what = "on this machine" if server.ours else "that PREFECT_API_URL or Prefect's files name"
        remedy = "Stop it with `precis stop`" if server.ours else "Unset that"
        raise ConfigError(
            f"There is a Prefect server already, at {server.api}, {what}; only one that is "
            f"started here can {can}. {remedy}, or leave {option} out."
        )


def _running() -> str | None:
    api = process.address()
    return api if api and _is_healthy(api) else None


def _is_healthy(api: str) -> bool:
    try:
        # It is on this machine, where no proxy from the environment reaches it.
        health = httpx.get(f"{api}/health", timeout=10, verify=tls_for(api), trust_env=False)
    except httpx.TransportError:
        return False
    return health.is_success
