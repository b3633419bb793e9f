"""What a managed job runs on its machine, against a stand-in for the Prefect server."""

from contextlib import nullcontext
from types import SimpleNamespace
from uuid import UUID, uuid4

import httpx
import pytest
from prefect.client.schemas.objects import FlowRun
from prefect.states import Completed

from cli import managed_run


async def test_a_server_that_is_out_when_a_machine_begins_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else the job ends with an error, and SkyPilot starts it nowhere again."""
    outages = [httpx.ConnectError("refused"), httpx.ConnectError("refused")]

    class Server:
        """Refuses two looks, and knows one run that has ended."""

        async def api_healthcheck(self) -> Exception | None:
            return outages.pop() if outages else None

        async def read_flow_run(self, run: UUID) -> FlowRun:
            if outages:
                raise outages[0]
            return FlowRun(id=run, flow_id=uuid4(), state=Completed())

    context = SimpleNamespace(client=Server())
    monkeypatch.setattr(managed_run, "get_client", lambda: nullcontext(Server()))
    monkeypatch.setattr(managed_run, "FlowRunExecutorContext", lambda: nullcontext(context))
    monkeypatch.setattr(managed_run, "_LOOK_S", 0.0)
    assert await managed_run.execute(uuid4()) == 0
