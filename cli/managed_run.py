"""The program of a managed job on the machine that it has rented: `python -m cli.managed_run`.

The flow run was made by who launched the job, and all machines that the job gets execute that one
run: its page in Prefect shows the whole story. A machine that takes the place of a lost one
continues from the last commit.
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
"""The code by which deployments/managed.sky.yaml tells SkyPilot that this was no error."""
_PATIENCE_S = 1800.0
"""How long to wait for the server. The machine costs dollars an hour meanwhile, but an error here
would end the job for good."""
_LOOK_S = 10.0


async def execute(run_id: UUID) -> int:
    """Execute a flow run, unless it has ended; 0 where it ended well or was cancelled."""
    await await_server()
    async with FlowRunExecutorContext() as context:
        run = await reopen(context.client, run_id)
        if not _is_over(run):
            # What Prefect names in place of the deprecated `Runner.execute_flow_run`; it has an eye
            # on the Cancel button.
            channel = context.control_channel
            starter = EngineCommandStarter(entrypoint=_ENTRYPOINT, control_channel=channel)

            async def resolve_flow(_: FlowRun) -> Flow[Any, Any]:
                return train

            executor = context.create_executor(
                run, starter, resolve_flow=resolve_flow, propose_submitting=False
            )
            await executor.submit()
    async with get_client() as client:  # a cancelled run is one only when all of that has ended
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
    """The same, but 143 where this process was told to end, as by a machine that is taken back."""
    work = asyncio.create_task(execute(run_id))

    def end() -> None:
        # Once: a machine tells all that runs there, and `timeout` tells us again.
        if not work.cancelling():
            work.cancel()

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end)
    try:
        return await work
    except asyncio.CancelledError:
        print("Told to end. What the run has committed is in the store.", flush=True)
        return _TOLD_TO_END


async def reopen(client: PrefectClient, run_id: UUID) -> FlowRun:
    """Return the flow run, ready to be executed where an earlier machine has left it in the
    middle."""
    run = await client.read_flow_run(run_id)
    if run.state is None or run.state.is_pending() or run.state.is_cancelling() or _is_over(run):
        return run
    message = "Its machine was lost. It goes on from its last commit, on another one."
    # Not as a proposal: the server would have a run without a deployment rest where it is.
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
