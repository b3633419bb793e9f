"""Prefect's server as we start it: `python -m cli.serve_prefect --host … --port …`.

It requires a password, lets only pages of its own origin read its answers, and no other origin
frame its pages. On the loopback it answers only to the loopback's names: a page on the internet may
point its own name at 127.0.0.1, so that a browser takes the server for that page's.

A server that a command has left up (`--lock`) exits when its folder is gone, or after a day without
a request from a page, a worker, a run or a command.
"""

import base64
import hmac
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer
import uvicorn
from fastapi import FastAPI
from starlette.middleware.base import RequestResponseEndpoint
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from cli.prefect_settings import server_password
from precis.commands.terminal import sentences
from precis.errors import ConfigError

_LOOPBACK = ("127.0.0.1", "localhost")
_DOCUMENTATION = ("/openapi.json", "/docs", "/docs/oauth2-redirect", "/redoc")
"""The API's documentation; Prefect requires the password only under /api."""
_HEALTH = "/api/health"
_LOOK_S = 5.0
_IDLE_MAX_S = 86_400.0
_FAREWELL_S = 20.0


def app_for(host: str, port: int) -> ASGIApp:
    """Return Prefect's server, protected by a password. `host` is where it listens. Names are
    checked only on the loopback: others are not known."""
    password = server_password()
    if password is None:
        raise ConfigError(
            "Who reaches a Prefect server can run code on its workers, so this one does not start "
            "without a password: set PREFECT_SERVER_API_AUTH_STRING to `user:password`."
        )
    os.environ["PREFECT_SERVER_API_AUTH_STRING"] = password  # it may come from .env
    os.environ.setdefault("PREFECT_UI_URL", f"http://127.0.0.1:{port}")
    page = httpx.URL(os.environ["PREFECT_UI_URL"])
    origin = f"{page.scheme}://{page.netloc.decode()}"
    os.environ.setdefault("PREFECT_SERVER_CORS_ALLOWED_ORIGINS", origin)
    from prefect.server.api.server import create_app  # only now: it reads the environment

    write_in_turn()
    let_runs_end()
    app: FastAPI = create_app(final=True)
    expected = f"Basic {base64.b64encode(password.encode()).decode()}".encode()

    @app.middleware("http")
    async def protect(request: Request, call_next: RequestResponseEndpoint) -> Response:
        """Require the password for the documentation, and keep pages out of other origins'
        frames."""
        given = request.headers.get("authorization", "").encode()
        path = request.scope["path"]  # a Host header may give `request.url` another
        if path in _DOCUMENTATION and not hmac.compare_digest(given, expected):
            asks = {"WWW-Authenticate": 'Basic realm="Prefect"'}
            answer: Response = PlainTextResponse("Unauthorized", 401, headers=asks)
        else:
            answer = await call_next(request)
        answer.headers["Content-Security-Policy"] = "frame-ancestors 'self'"
        answer.headers["X-Frame-Options"] = "SAMEORIGIN"
        return answer

    if host not in _LOOPBACK:
        return app
    # Around the app, not in it: Prefect's automations call the app itself, by a name of their own.
    return TrustedHostMiddleware(app, allowed_hosts=[*_LOOPBACK, page.host])


def write_in_turn() -> None:
    """Have each of Prefect's transactions on SQLite take its turn when it begins.

    Otherwise one that reads first and then writes fails at once if another has written meanwhile:
    a form says "Unknown error", and a client repeats its request two seconds later.
    """
    from prefect.server.database.configurations import AioSqliteConfiguration as Configuration

    begin = Configuration.begin_transaction
    Configuration.begin_transaction = lambda self, session, with_for_update=False: begin(
        self, session, with_for_update=True
    )


def let_runs_end() -> None:
    """Have Prefect end runs that it would show as Cancelling, or as Running, for ever.

    A retry that waits would be cancelled at the end of the process of its last try, which has
    ended. A run whose deployment has lost its limit, or is deleted, could not give back its slot.
    """
    from prefect.server.orchestration import core_policy

    rule = core_policy.BypassCancellingFlowRunsWithNoInfra
    decide, release = rule.before_transition, core_policy._release_concurrency_lease

    async def forget_process(self: Any, initial: Any, proposed: Any, context: Any) -> None:
        if initial is not None and initial.is_scheduled():
            context.run.infrastructure_pid = None
        await decide(self, initial, proposed, context)

    async def release_if_there(*lease: Any, **fallback: Any) -> None:
        with suppress(RuntimeError):
            await release(*lease, **fallback)

    rule.before_transition = forget_process
    core_policy._release_concurrency_lease = release_if_there


class LastUse:
    """Middleware that records the time of the last request for anything but the server's health.

    An open page, a worker and a run send requests every few seconds, and a command when it is run.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._at = clock()
        self._open = 0

    @property
    def idle_s(self) -> float:
        """The seconds since the last use; 0 during one, such as a websocket."""
        return 0.0 if self._open else self._clock() - self._at

    def around(self, app: ASGIApp) -> ASGIApp:
        """Return the app with its use recorded."""

        async def noting(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "lifespan" or scope["path"] == _HEALTH:
                return await app(scope, receive, send)
            self._open += 1
            try:
                await app(scope, receive, send)
            finally:
                self._open -= 1
                self._at = self._clock()

        return noting


def end_when_unused(
    lock: Path, last_use: LastUse, end: Callable[[str], None], stopped: threading.Event
) -> None:
    """Watch for a reason to end, and pass it to `end`.

    Args:
        lock: a file in the server's folder; the server ends when it is gone.
        end: called once, with the reason.
        stopped: ends the watch.
    """
    began_with = lock.stat().st_ino
    while not stopped.wait(_LOOK_S):
        try:
            is_there = lock.stat().st_ino == began_with
        except OSError:
            is_there = False
        if not is_there:
            return end(f"{lock.parent} is gone.")
        if last_use.idle_s > _IDLE_MAX_S:
            return end(f"For {_IDLE_MAX_S / 3600:.0f} hours nobody has asked for anything.")


def main(
    host: Annotated[str, typer.Option()],
    port: Annotated[int, typer.Option()],
    lock: Annotated[Path | None, typer.Option()] = None,
) -> None:
    """Serve until SIGTERM, or until the lock's folder is gone or the server is unused."""
    last_use = LastUse()
    with sentences():
        app = last_use.around(app_for(host, port))
    server = uvicorn.Server(uvicorn.Config(app, host=host, port=port, log_level="warning"))

    def end(reason: str) -> None:
        print(f"The server ends: {reason}", file=sys.stderr, flush=True)
        server.should_exit = True
        # Without its database it may not exit.
        time.sleep(_FAREWELL_S)
        os._exit(0)

    if lock is not None:
        given = (lock, last_use, end, threading.Event())
        threading.Thread(target=end_when_unused, args=given, daemon=True).start()
    server.run()


if __name__ == "__main__":
    typer.run(main)
