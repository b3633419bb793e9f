"""Prefect's server as we start it: `python -m cli.serve_prefect --host … --port …`.

It asks everybody for a password, lets the pages of its own origin read its answers, and lets nobody
else's show its pages in a frame. One that listens on the loopback answers to its own names alone: a
page on the internet may point a name of its own at 127.0.0.1, so that a browser takes the server
for that page's.
"""

import base64
import hmac
import os
import sys
from typing import Annotated

import httpx
import typer
import uvicorn
from fastapi import FastAPI
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cli.prefect_settings import server_password

_LOOPBACK = ("127.0.0.1", "localhost")
_DOCUMENTATION = ("/openapi.json", "/docs", "/docs/oauth2-redirect", "/redoc")
"""Of the API; Prefect asks for the password under /api alone."""


class Perimeter:
    """Asks for the password before the API's documentation, and keeps pages out of others' frames.

    Args:
        password: `user:password`.
    """

    def __init__(self, app: ASGIApp, password: str) -> None:
        self._app = app
        self._expected = f"Basic {base64.b64encode(password.encode()).decode()}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)

        async def send_unframed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["Content-Security-Policy"] = "frame-ancestors 'self'"
                headers["X-Frame-Options"] = "SAMEORIGIN"
            await send(message)

        app = self._app
        given = Headers(scope=scope).get("authorization", "").encode()
        if scope["path"] in _DOCUMENTATION and not hmac.compare_digest(given, self._expected):
            asks = {"WWW-Authenticate": 'Basic realm="Prefect"'}
            app = PlainTextResponse("Unauthorized", 401, headers=asks)
        await app(scope, receive, send_unframed)


def app_for(host: str, port: int) -> FastAPI:
    """Prefect's server, for those who know its password.

    Args:
        host: where it listens. Beyond the loopback its names are not known, and not checked.
    """
    password = server_password()
    if password is None:
        sys.exit(
            "Who reaches a Prefect server can run code on its workers, so this one does not start "
            "without a password: set PREFECT_SERVER_API_AUTH_STRING to `user:password`."
        )
    os.environ["PREFECT_SERVER_API_AUTH_STRING"] = password  # which may come from .env
    os.environ.setdefault("PREFECT_UI_URL", f"http://127.0.0.1:{port}")
    page = httpx.URL(os.environ["PREFECT_UI_URL"])
    origin = f"{page.scheme}://{page.netloc.decode()}"
    os.environ.setdefault("PREFECT_SERVER_CORS_ALLOWED_ORIGINS", origin)
    from prefect.server.api.server import create_app  # only now, since it reads the environment

    app: FastAPI = create_app(final=True)
    app.add_middleware(Perimeter, password=password)
    if host in _LOOPBACK:
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=[*_LOOPBACK, page.host])
    return app


def main(host: Annotated[str, typer.Option()], port: Annotated[int, typer.Option()]) -> None:
    """Serve until SIGTERM."""
    uvicorn.run(app_for(host, port), host=host, port=port, log_level="warning")


if __name__ == "__main__":
    typer.run(main)
