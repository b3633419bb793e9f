"""`precis up`: server, work pool, deployments, automations and a worker, in one command."""

import asyncio
import contextlib
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from cli import prefect_server
from cli.prefect_server import PrefectServer, keep_running
from cli.prefect_settings import on_postgres, server_password
from precis.environment import private_home
from precis.errors import ConfigError, PrecisError

ROOT = Path(__file__).parents[1]
_DEPLOY_TIMEOUT_S = 300
_FLUSH_TIMEOUT_S = 5
_PASSWORD_MIN = 12


def up(
    console: Console, *, share: bool, port: int | None, automations: bool | None, limit: int
) -> None:
    """Start everything, work until Ctrl-C or SIGTERM, and stop what was started here.

    A port of None takes a free one. Automations are applied, or removed if False; None applies them
    if the server's data is known to be in PostgreSQL, and else leaves them alone. Raises
    PrecisError for what could not be started.
    """
    if share:
        demand_password()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # until the worker takes it
    log = private_home() / "worker.log"
    if not console.is_terminal:  # a log has no spinner
        console.print("Starting …")
    with _output_to(log):
        server = prefect_server.find_or_start(share=share, port=port)
        status = 1
        try:
            with console.status("Starting …"):
                _stand_up(server, console, automations)
            console.print(f"Worker       takes up to {limit} runs at a time; its log: {log}")
            asyncio.run(_work(limit, server, console))
            status = 0
        finally:
            try:
                if server.started:
                    prefect_server.stop()
                    console.print("The Prefect server is stopped.")
            finally:  # at another Ctrl-C too
                # Prefect's threads end once a server has taken their events, and ours is gone.
                farewell = threading.Timer(_FLUSH_TIMEOUT_S, os._exit, (status,))
                farewell.daemon = True
                farewell.start()


def demand_password() -> None:
    """Raise ConfigError if there is no password for a server that others can reach, or it is too
    short."""
    user, _, password = (server_password() or "").partition(":")
    if not user or len(password) < _PASSWORD_MIN:
        raise ConfigError(
            "A server that others can reach runs their code, so it needs a password: set "
            f"PREFECT_SERVER_API_AUTH_STRING to `user:password`, with {_PASSWORD_MIN} characters "
            "or more in the password, in the environment or in .env."
        )


def deploy() -> None:
    """Deploy everything in prefect.yaml; idempotent. Raises PrecisError if Prefect refused; the
    message ends with its reason."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=_DEPLOY_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise PrecisError(
            f"`prefect deploy --all` took longer than {_DEPLOY_TIMEOUT_S} s: see whether the "
            "machine or the server is overloaded, and start again."
        ) from error
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-8:])
        raise PrecisError(f"`prefect deploy --all` failed:\n{tail}")


def _stand_up(server: PrefectServer, console: Console, automations: bool | None) -> None:
    from cli import automations as automating
    from cli import pool  # imports Prefect, while the server starts
    from cli.server_check import explained

    asyncio.run(server.wait())
    asyncio.run(prefect_server.check())
    console.print(f"Prefect      {server.ui}")
    if server.show_password:
        console.print(f"Password     {server.show_password}  shows it")
    # The rest takes up to two minutes on a busy machine.
    if not console.is_terminal:
        console.print("Deploying …")
    with explained("take the deployments"):
        asyncio.run(pool.ensure())
        paused = asyncio.run(pool.paused())
        try:
            deploy()
        finally:  # it resumes each that it comes to
            asyncio.run(pool.pause(paused))
        wanted = on_postgres() if automations is None else automations
        if wanted:
            asyncio.run(automating.apply())
        elif automations is False:
            asyncio.run(automating.remove())
        active = asyncio.run(automating.active())
        deployed = asyncio.run(pool.deployments())
    console.print(f"Deployments  {', '.join(deployed)}")
    console.print(f"Automations  {', '.join(active) or 'none; --automations applies them'}")
    console.print("\nIn another terminal:")
    activate = Path(sys.prefix, "bin", "activate")
    if activate.is_file():
        console.print(f"  . {shlex.quote(str(activate))}")
    console.print(f"  export PREFECT_API_URL={server.api}")
    if server.show_password:
        console.print(f'  export PREFECT_API_AUTH_STRING="$({server.show_password})"')
    direct = os.environ.get("NO_PROXY")  # set where there is a proxy
    if direct:
        console.print(f"  export NO_PROXY={shlex.quote(direct)}")
    console.print("  prefect deployment run 'train/rehearsal'\n  precis runs")
    and_server = " and the server" if server.started else ""
    console.print(f"\nCtrl-C waits for the current runs, and then stops the worker{and_server}.")


async def _work(limit: int, server: PrefectServer, console: Console) -> None:
    from prefect.logging.handlers import APILogHandler

    from cli.worker import work

    async with keep_running(server, console.print):
        await work(limit, console.print)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FLUSH_TIMEOUT_S):
                await APILogHandler.aflush()  # before the server stops


@contextlib.contextmanager
def _output_to(log: Path) -> Iterator[None]:
    """Send the output of Prefect and the flows to a file, to keep the terminal for ours."""
    # Not closed: Prefect writes until Python ends, and would print tracebacks for a closed file.
    file = log.open("a", buffering=1)
    with contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
        yield
