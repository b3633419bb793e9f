"""Commands that list a Prefect server's runs, where the server fails to."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from typer.testing import CliRunner

from cli.deletion import delete_from_prefect
from cli.live_runs import read_live_runs
from precis.commands.main import app
from precis.errors import PrecisError
from tests.support.local_server import served


@pytest.fixture
def failing(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A Prefect server that answers to a look, and lists no runs, as the configured one."""

    async def answer(request: Request) -> Response:
        if request.method == "GET":
            is_look = request.url.path in ("/api/admin/version", "/api/health")
            return Response(b'"3.9.1"', 200 if is_look else 404)
        sent = await request.body()
        return Response(b'{"exception_message": "Internal Server Error for %b"}' % sent, 500)

    monkeypatch.setenv("PREFECT_API_AUTH_STRING", "ana:secret")
    every = Route("/{path:path}", answer, methods=["GET", "POST"])
    with served(Starlette(routes=[every])) as address:
        api = f"{address}/api"
        monkeypatch.setenv("PREFECT_API_URL", api)
        # Prefect reads the environment when it is imported, which another test may have done.
        with temporary_settings({PREFECT_API_URL: api}):
            yield


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
