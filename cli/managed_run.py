"""The program of a managed job on its rented machine: `python -m cli.managed_run`.

The launcher of the job created the flow run, and every machine of the job executes that run, so its
page in Prefect shows everything. A machine that replaces a lost one continues from the last commit.
"""

import asyncio
import os
import signal
import sys
import time
from typing import Any
from uuid import UUID

from prefect import Flow, State, get_client
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun
from prefect.runner._flow_run_executor import FlowRunExecutorContext
from prefect.runner._starter_engine import EngineCommandStarter
from prefect.states import Pending

from flows.train import train

_ENTRYPOINT = "flows/train.py:train"
_VARIABLE = "PRECIS_FLOW_RUN"
"""The flow run's id."""
_TOLD_TO_END = 128 + signal.SIGTERM
"""The exit code that deployments/managed.sky.yaml declares to SkyPilot as no error."""
_PATIENCE_S = 1800.0
"""How long to wait for the server. The machine costs dollars an hour meanwhile, but an error here
would end the job for good."""
_LOOK_S = 10.0


async def execute(run_id: UUID) -> int:
    """Execute a flow run, unless it has ended; return 0 if it succeeded or was cancelled."""
    await await_server()
    async with FlowRunExecutorContext() as context:
        run = await reopen(context.client, run_id)
        if not _is_over(run):
            # Prefect's replacement for the deprecated `Runner.execute_flow_run`; it handles the
            # Cancel button.
            channel = context.control_channel
            starter = EngineCommandStarter(entrypoint=_ENTRYPOINT, control_channel=channel)

            async def resolve_flow(_: FlowRun) -> Flow[Any, Any]:
                return train

            executor = context.create_executor(
                run, starter, resolve_flow=resolve_flow, propose_submitting=False
            )
            await executor.submit()
    async with get_client() as client:  # a run is Cancelled only after all of that has ended
        run = await client.read_flow_run(run_id)
    print(f"The flow run {run.name} is {run.state_name}.", flush=True)
    return 0 if _is_over(run) else 1


async def await_server() -> None:
    """Wait until the Prefect server answers, for half an hour at most.

    Prefect's client itself waits only for a server that has answered it before.
    """
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        async with get_client() as client:
            failure = await client.api_healthcheck()
        if failure is None or time.monotonic() > deadline:
            return
        print(f"The Prefect server does not answer and will be asked again: {failure}", flush=True)
        await asyncio.sleep(_LOOK_S)


async def execute_until_told(run_id: UUID) -> int:
    """Like `execute`, but return 143 after SIGTERM, as when the machine is reclaimed."""
    work = asyncio.create_task(execute(run_id))

    def end() -> None:
        # Only once: a machine signals every process, and `timeout` signals ours again.
        if not work.cancelling():
            work.cancel()

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end)
    try:
        return await work
    except asyncio.CancelledError:
        print("Told to end. What the run has committed is in the store.", flush=True)
        return _TOLD_TO_END


async def reopen(client: PrefectClient, run_id: UUID) -> FlowRun:
    """Return the flow run, made ready to be executed again if an earlier machine did not finish
    it."""
    run = await client.read_flow_run(run_id)
    if run.state is None or run.state.is_pending() or run.state.is_cancelling() or _is_over(run):
        return run
    message = "Its machine was lost. It continues from its last commit, on another one."
    # Forced: otherwise the server would not move a run without a deployment.
    recovering: State[Any] = Pending(name="Recovering", message=message)
    await client.set_flow_run_state(run_id, recovering, force=True)
    return await client.read_flow_run(run_id)


def _is_over(run: FlowRun) -> bool:
    """Return whether nothing is left to do."""
    return run.state is not None and (run.state.is_completed() or run.state.is_cancelled())


def main() -> None:
    """Execute the flow run that the job was launched for."""
    sys.exit(asyncio.run(execute_until_told(UUID(os.environ[_VARIABLE]))))


if __name__ == "__main__":
    main()
