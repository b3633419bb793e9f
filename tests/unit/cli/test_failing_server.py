"""Commands that list a Prefect server's runs, where the server fails to."""

from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings
from typer.testing import CliRunner

from cli.deletion import delete_from_prefect
from cli.live_runs import read_live_runs
from precis.commands.main import app
from precis.errors import PrecisError


class FailsToList(BaseHTTPRequestHandler):
    """A Prefect server that answers to a look, and lists no runs."""

    def do_GET(self) -> None:
        is_look = self.path in ("/api/admin/version", "/api/health")
        self._answer(200 if is_look else 404, b'"3.9.1"')

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(500, b'{"exception_message": "Internal Server Error for %b"}' % sent)

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keep the test's output clean."""


@pytest.fixture
def failing(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Such a server, as the configured one."""
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", "ana:secret")
    with ThreadingHTTPServer(("127.0.0.1", 0), FailsToList) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        api = f"http://127.0.0.1:{server.server_port}/api"
        monkeypatch.setenv("PREFECT_API_URL", api)
        # Prefect reads the environment when it is imported, which another test may have done.
        with temporary_settings({PREFECT_API_URL: api}):
            yield
        server.shutdown()


@pytest.mark.usefixtures("failing")
async def test_a_deletion_says_what_the_server_answered() -> None:
    with pytest.raises(PrecisError, match=r"did not delete the runs of 'm': .*500"):
        await delete_from_prefect("m", "store")


@pytest.mark.usefixtures("failing")
def test_a_key_that_the_server_does_not_keep_is_in_no_message() -> None:
    key = "sk-or-v1-0123456789"
    result = CliRunner().invoke(app, ["secret", "OPENROUTER_API_KEY"], input=f"{key}\n")
    assert result.exit_code == 1
    said = " ".join(result.output.split())
    assert "did not keep OPENROUTER_API_KEY: it answered 500. See the server's log." in said
    assert key not in result.output


@pytest.mark.usefixtures("failing")
async def test_a_list_of_what_runs_says_what_the_server_answered() -> None:
    with pytest.raises(PrecisError, match=r"did not list its runs: .*500"):
        await read_live_runs(datetime.now(UTC))
