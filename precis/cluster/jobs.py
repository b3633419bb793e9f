"""A wrapper of SkyPilot's managed jobs, like `precis.cluster.api`.

A managed job is a task with its own machine. SkyPilot's jobs controller rents the machine, replaces
it when it is lost, and takes it down when the task ends.
"""

from dataclasses import dataclass
from typing import Any

from precis.cluster import api
from precis.cluster.api import Log
from precis.errors import ClusterError


@dataclass(frozen=True)
class ManagedJob:
    """The state of a managed job, as SkyPilot knows it.

    Attributes:
        status: SkyPilot's name for its state, such as STARTING or RECOVERING.
        recoveries: how often it was recovered.
    """

    id: int
    name: str
    status: str
    recoveries: int

    def __str__(self) -> str:
        """Return a sentence on how to follow the job, and how to end it."""
        times = "once" if self.recoveries == 1 else f"{self.recoveries} times"
        recovered = f", recovered {times}" if self.recoveries else ""
        return (
            f"The managed job {self.id} ({self.name}) is {self.status}{recovered}. Follow it with "
            f"`sky jobs logs {self.id}`, or its flow run in Prefect, Pending until its machine is "
            f"installed; end it with `sky jobs cancel {self.id}`, or by that run's Cancel button."
        )


async def find(name: str) -> ManagedJob | None:
    """Return the active job of this name, or None. Raises ClusterError if SkyPilot can't be asked,
    or is about to end the job."""
    try:
        records, *_ = await api.call(
            lambda: _sdk().queue_v2(
                refresh=False, skip_finished=True, all_users=True, name_match=name
            )
        )
    except ClusterError as error:
        if type(error.__cause__).__name__ == "ClusterNotUpError":
            return None  # an idle controller shuts down
        raise
    # SkyPilot also finds jobs whose names contain this one.
    record = next((one for one in records if one.job_name == name), None)
    if record is None:
        return None
    job = ManagedJob(record.job_id, name, record.status.value, record.recovery_count or 0)
    if job.status == "CANCELLING":
        raise ClusterError(
            f"The managed job {job.id} ({name}) is being cancelled.", "Launch it again once it is."
        )
    return job


async def launch(task: Any, name: str, log: Log, deadline_s: float) -> tuple[int, bool]:
    """Submit the task to the jobs controller, which is started if needed.

    Returns the job's id, and whether its controller runs on this machine, and ends with it. Raises
    ClusterError if it did not accept the task before the deadline.
    """
    late = ClusterError(
        f"SkyPilot's jobs controller did not take the job {name!r} within {deadline_s:.0f} s.",
        "See `sky api logs` for why.",
    )
    try:
        sent = api.call(lambda: _sdk().launch(task, name=name), deadline_s, log, late)
        ids, controller = await sent
    except ClusterError:
        taken = await find(name)
        if taken is None:
            raise
        return taken.id, False  # only SkyPilot's answer was lost
    from sky.backends import LocalResourcesHandle
    from sky.server.common import is_api_server_local

    # Within this machine's API server, which SkyPilot calls consolidation.
    is_here = isinstance(controller, LocalResourcesHandle) and bool(is_api_server_local())
    return int(ids[0]), is_here


def _sdk() -> Any:
    api.sdk()  # raises with a remedy if SkyPilot is not installed
    from sky.jobs.client import sdk

    return sdk
