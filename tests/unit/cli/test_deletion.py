"""The deletion of a run's records in Prefect."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from cli.deletion import delete_from_prefect
from precis.errors import PrecisError


class FailsToList(BaseHTTPRequestHandler):
    """A Prefect server that answers to a look, and lists no runs."""

    def do_GET(self) -> None:
        is_look = self.path in ("/api/admin/version", "/api/health")
        self._answer(200 if is_look else 404, b'"3.9.1"')

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(500, b'{"exception_message": "Internal Server Error"}')

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keep the test's output clean."""


async def test_a_server_that_fails_to_list_runs_is_named_with_what_was_not_deleted(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", "ana:secret")
    with ThreadingHTTPServer(("127.0.0.1", 0), FailsToList) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setenv("PREFECT_API_URL", f"http://127.0.0.1:{server.server_port}/api")
        try:
            with pytest.raises(PrecisError, match=r"did not delete the runs of 'm': .*500"):
                await delete_from_prefect("m", "store")
        finally:
            server.shutdown()
