"""Prefect's server as we start it: `python -m cli.serve_prefect --host … --port …`.

It asks everybody for a password and lets the pages of its own origin read its answers. One that
listens on the loopback answers to its own names alone: a page on the internet may point a name
of its own at 127.0.0.1, so that a browser takes the server for that page's.
"""

import os
import sys
from typing import Annotated

import httpx
import typer
import uvicorn
from fastapi import FastAPI
from starlette.middleware.trustedhost import TrustedHostMiddleware

from cli.prefect_settings import server_password

_LOOPBACK = ("127.0.0.1", "localhost")


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
    if host in _LOOPBACK:
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=[*_LOOPBACK, page.host])
    return app


def main(host: Annotated[str, typer.Option()], port: Annotated[int, typer.Option()]) -> None:
    """Serve until SIGTERM."""
    uvicorn.run(app_for(host, port), host=host, port=port, log_level="warning")


if __name__ == "__main__":
    typer.run(main)
