"""A wrapper of SkyPilot's SDK: each call in a thread, with a deadline and our errors.

SkyPilot is imported on first use only: a rehearsal does not need it, and the import takes 1.5 s.
Its errors become a ClusterError, or a ConfigError if no retry helps.
"""

import asyncio
import contextvars
import functools
import importlib.util
import io
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import yaml

from precis.cluster.site import HourlyPrice
from precis.errors import ClusterError, ConfigError, NoCapacity, PrecisError

Log = Callable[[str], None]

# Not asyncio's threads: requests that hang must not keep the lease from being renewed in one.
_threads = ThreadPoolExecutor(64, "skypilot")
_ASK_S = 120.0
_DOWN_S = 600.0
_TERMINAL_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_HOPELESS = (
    "APIVersionMismatchError",
    "ApiServerAuthenticationError",
    "ClusterOwnerIdentityMismatchError",
    "InvalidClusterNameError",
    "InvalidSkyPilotConfigError",
    "NoCloudAccessError",
    "NotSupportedError",
    "PermissionDeniedError",
    "UserRequestRejectedByPolicy",
)
"""SkyPilot's errors that no retry can fix."""


@dataclass(frozen=True)
class Cluster:
    """The state of a cluster, as SkyPilot knows it.

    Attributes:
        status: SkyPilot's name for it, such as UP or INIT.
        infra: its place: cloud, region, zone.
        launched_at: seconds since 1970.
        envs: the variables, without secrets, of the task it was launched with.
    """

    name: str
    status: str
    infra: str
    price: HourlyPrice
    launched_at: float
    envs: dict[str, str]


@functools.cache
def sdk() -> Any:
    """Return SkyPilot's client. Raises ConfigError if it is not installed."""
    try:
        from sky.client import sdk as client
    except ImportError as error:
        raise ConfigError(
            "SkyPilot is not installed: run `make install-sky`, or install Précis with its extra "
            "`sky`."
        ) from error
    return client


def is_installed() -> bool:
    return importlib.util.find_spec("sky") is not None


async def find(name: str, *, refresh: bool = False) -> Cluster | None:
    """Return the cluster of this name, or None; by SkyPilot's last known state, unless `refresh`
    has the cloud asked."""
    return next(iter(await list_clusters([name], refresh=refresh)), None)


async def launch(task: Any, name: str, autostop_minutes: int, log: Log, deadline_s: float) -> int:
    """Run the task on the cluster, which is created, repaired or started; return the job's id.

    All candidates are tried in turn until the deadline, then NoCapacity is raised. The cluster
    takes itself down `autostop_minutes` after its last job.
    """
    from sky.skylet.autostop_lib import AutostopWaitFor

    def submit() -> Any:
        return sdk().launch(
            task,
            cluster_name=name,
            retry_until_up=True,
            idle_minutes_to_autostop=autostop_minutes,
            wait_for=AutostopWaitFor.JOBS,
            down=True,
        )

    late = NoCapacity(
        f"No candidate had a machine for cluster {name!r} within {deadline_s:.0f} s.",
        "Add places to cluster.infra, take another cluster.gpu, or wait longer "
        "(cluster.provision_timeout_s).",
    )
    job, _ = await call(submit, deadline_s, log, late)
    return int(job)


async def down(name: str) -> bool:
    """Take the cluster down; return whether it still existed. SkyPilot finishes this even if the
    caller stops waiting."""
    try:
        await call(lambda: sdk().down(name), _DOWN_S, take_back=False)
    except ClusterError as error:
        if type(error.__cause__).__name__ != "ClusterDoesNotExist":
            raise
        return False
    return True


async def job_status(name: str, job: int) -> str:
    """Return SkyPilot's name for the state of a job, such as RUNNING or FAILED_SETUP."""
    answer = await call(lambda: sdk().job_status(name, [job]))
    return str(answer[job].value) if answer.get(job) else "UNKNOWN"


async def end_jobs(name: str) -> None:
    await call(lambda: sdk().cancel(name, all=True))


def follow_log(name: str, job: int, log: Log) -> None:
    """Forward a job's output until it ends; to be run in its own thread."""
    with suppress(Exception):  # it ends with the machine, in any of SkyPilot's ways
        sdk().tail_logs(name, job, follow=True, output_stream=_LineStream(log))


async def list_clusters(names: list[str] | None = None, *, refresh: bool = True) -> list[Cluster]:
    """Return all clusters of this user, or those of some names, by the cloud's own state unless
    `refresh` is false."""
    client = sdk()  # raises with a remedy if SkyPilot is not installed
    from sky import StatusRefreshMode

    mode = StatusRefreshMode.FORCE if refresh else StatusRefreshMode.NONE
    records = await call(lambda: client.status(names, refresh=mode))
    clusters = []
    for record in records:
        resources = getattr(record.handle, "launched_resources", None)
        task = yaml.safe_load(record.last_creation_yaml or "") or {}
        charged = _catalogue_price(resources) or 0.0
        on_demand = _catalogue_price(resources and resources.copy(use_spot=False))
        cluster = Cluster(
            name=record.name,
            status=record.status.value,
            infra=str(resources.infra.to_str()) if resources else "",
            price=HourlyPrice(charged, charged if on_demand is None else on_demand),
            launched_at=float(record.launched_at),
            envs={key: str(value) for key, value in (task.get("envs") or {}).items()},
        )
        clusters.append(cluster)
    return clusters


def _catalogue_price(resources: Any) -> float | None:
    """Return a machine's dollars an hour; None where SkyPilot's catalogue has no price."""
    try:
        return float(resources.get_cost(3600)) if resources else None
    except (AssertionError, ValueError):  # SkyPilot's ways to say so
        return None


async def call(
    submit: Callable[[], Any],
    deadline_s: float = _ASK_S,
    log: Log | None = None,
    late: ClusterError | None = None,
    *,
    take_back: bool = True,
) -> Any:
    """Send a request and wait for its result.

    If the caller stops waiting, the request is cancelled, unless `take_back` is false. `log`, which
    a launch has, receives SkyPilot's output meanwhile; a launch that fails is cancelled too. Raises
    ClusterError if SkyPilot failed, or did not answer in time (then it is `late`, if given), and
    ConfigError if no retry would help.
    """
    requests: list[Any] = []
    given_up = threading.Event()

    def send() -> None:
        requests.append(submit())
        if given_up.is_set():
            withdraw()

    def withdraw() -> None:
        sdk().api_cancel(requests, silent=True)

    try:
        async with asyncio.timeout(deadline_s):
            await _in_thread(send)
            if log is None:
                return await _in_thread(lambda: sdk().get(requests[0]))
            stream = _LineStream(log)
            get = functools.partial(sdk().stream_and_get, requests[0], output_stream=stream)
            try:
                return await _in_thread(get)
            except ClusterError:  # perhaps its answer alone was lost, and another try launches too
                with suppress(PrecisError):
                    await _in_thread(withdraw)
                raise
    except (asyncio.CancelledError, TimeoutError) as error:
        if take_back:
            given_up.set()  # for the sending thread: sending may take long
            with suppress(PrecisError):  # its failure must not hide that the caller has stopped
                if requests:
                    await asyncio.shield(_in_thread(withdraw))
        if isinstance(error, asyncio.CancelledError):
            raise
        raise late or ClusterError(
            f"SkyPilot's API server did not answer within {deadline_s:.0f} s: see `sky api info` "
            "and `sky api logs`."
        ) from error


async def _in_thread(work: Callable[[], Any]) -> Any:
    # The context says to which run's log a line goes.
    in_context = functools.partial(contextvars.copy_context().run, work)
    try:
        return await asyncio.get_running_loop().run_in_executor(_threads, in_context)
    except ConfigError:
        raise
    except Exception as error:
        kind = type(error).__name__
        text = _plain(str(error)) or kind
        if kind in _HOPELESS:
            raise ConfigError(f"SkyPilot refuses: {text}") from error
        if kind == "ResourcesUnavailableError":
            raise NoCapacity(f"SkyPilot finds no such machine: {text}") from error
        raise ClusterError(f"SkyPilot failed: {text}") from error


def _plain(text: str) -> str:
    return _TERMINAL_CODES.sub("", text).strip()


class _LineStream(io.TextIOBase):
    """A stream that passes each line on, without terminal colours."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._rest = ""

    def write(self, text: str) -> int:
        *lines, self._rest = re.split(r"[\r\n]", self._rest + text)
        for line in filter(None, map(_plain, lines)):
            self._log(line)
        return len(text)
