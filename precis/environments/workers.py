"""Workers: processes of a Ray cluster that run rollouts, on one machine or many.

    flow: recorder, Workers ──Ray──► Player: the environment, its rollouts
               ▲                        │
               └── HTTP, with a key for each rollout

Ray starts workers, sends them the environment's files, and replaces one that dies; its rollouts are
Unscored.
"""

import asyncio
import importlib
import importlib.util
import logging
import math
import os
import shutil
import socket
from collections.abc import Callable, Collection, Mapping
from contextlib import AsyncExitStack, suppress
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

import httpx

from precis.environments.clock import clock_stopped
from precis.environments.programs import bypass_proxy, without_secrets
from precis.environments.protocol import AgentModel, Environment
from precis.environments.recorder import attempt
from precis.errors import ConfigError, PrecisError, RolloutError
from precis.records.rollout import Scenario, Score, Unscored
from precis.settings.environment import WorkersSettings

_START_S = 180.0
"""The time for the workers to start: each imports the environment's packages."""
_NONE_UP_S = 180.0
_CLOSE_S = 5.0
_CONNECT_S = 10.0
_STARTS = 3
_SLOW_STARTS = ("timed out during startup", "Starting Ray client server failed")
"""Errors of a busy machine: Ray gives its own processes 30 s to start."""
_OBJECTS = 80 * 1024 * 1024
"""Bytes of a local cluster's object store, the least that Ray allows: it carries only scenarios and
scores."""
_SHOWN = 300


class Player:
    """A worker, which Ray creates in its own process; loads the environment in the sent folder."""

    def __init__(self, load: Callable[[], Environment]) -> None:
        self._load = load
        self._stack = AsyncExitStack()
        self._environment: Environment | None = None
        self._opening = asyncio.Lock()

    async def start(self) -> None:
        await self._opened()

    async def play(
        self, model: Mapping[str, Any], scenario: Scenario
    ) -> Score | Unscored | PrecisError:
        """Attempt a scenario; return, rather than raise, an error that ends the step."""
        from precis.environments.rollout_model import RolloutModel

        environment = await self._opened()
        bypass_proxy(os.environ, urlsplit(model["inference_base_url"]).hostname or "localhost")
        # One for each rollout, which may run in its own event loop. No connection is kept open.
        http = httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(
                verify=False, limits=httpx.Limits(max_connections=None, max_keepalive_connections=0)
            ),
            timeout=None,
            trust_env=False,
        )
        config = environment.model_config
        try:
            given = RolloutModel(http=http, config=config, **model)
            return await attempt(environment, given, scenario)
        except PrecisError as error:
            return error

    async def stop(self) -> None:
        await self._stack.aclose()

    async def _opened(self) -> Environment:
        async with self._opening:
            if self._environment is None:
                environment = await asyncio.to_thread(self._load)
                self._environment = await self._stack.enter_async_context(environment)
            return self._environment


class Workers:
    """Plays rollouts on the workers of a cluster.

    Args:
        load: loads the environment on a worker.
        files: the files for each worker, by their paths in the folder in which `load` is called.
    """

    def __init__(
        self,
        settings: WorkersSettings,
        load: Callable[[], Environment],
        files: Mapping[str, Path],
    ) -> None:
        if importlib.util.find_spec("ray") is None:
            raise ConfigError(
                "`environment.workers` needs Ray, which is not installed.",
                "Run `make install-ray`.",
            )
        self._settings = settings
        self._load = load
        self._files = files
        self._stack = AsyncExitStack()
        self._players: list[Any] = []
        self._up: set[int] = set()
        self._restarts: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Connect to the cluster, or start one, and start the workers."""
        ray = self._ray = importlib.import_module("ray")
        settings = self._settings
        if ray.is_initialized():
            raise ConfigError("This process is connected to a Ray cluster already.")
        folder = self._stack.enter_context(TemporaryDirectory(prefix="precis-workers-"))
        for name, path in self._files.items():
            target = Path(folder) / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)
        try:
            await asyncio.to_thread(connect, ray, settings, folder)
            self._stack.push_async_callback(asyncio.to_thread, ray.shutdown)
            machines = {one["NodeManagerAddress"] for one in ray.nodes() if one["Alive"]}
            check_reach(machines, settings.recorder_host)
            options = {
                "num_cpus": settings.cpus_each,
                "max_concurrency": settings.rollouts_each + 2,  # `start` and `stop` beside them
                "max_restarts": -1,
                "max_task_retries": 0,
                "scheduling_strategy": "SPREAD",
            }
            made = ray.remote(Player).options(**options)
            self._players = [made.remote(self._load) for _ in range(settings.count)]
            await self._wait_until_up()
        except BaseException:
            await self.close()
            raise
        self._free: asyncio.Queue[int] = asyncio.Queue()
        for _ in range(settings.rollouts_each):
            for number in range(settings.count):
                self._free.put_nowait(number)

    async def close(self) -> None:
        """Close the environments of the workers, and leave the cluster, or end it."""
        for restart in self._restarts:
            restart.cancel()
        try:
            stops = [self._players[number].stop.remote() for number in self._up]
            if stops:
                asked = asyncio.gather(*stops, return_exceptions=True)
                with suppress(TimeoutError):
                    await asyncio.wait_for(asked, _CLOSE_S)
        finally:  # a lost connection, or a cancellation
            await self._stack.aclose()

    async def play(self, model: AgentModel, scenario: Scenario) -> Score | Unscored:
        """Have a worker attempt a scenario; the wait for a free one does not count as the
        rollout's. Raises RolloutError if no worker has been up for three minutes."""
        with clock_stopped():
            number = await self._take()
        is_up = True
        try:
            given = {
                "step": await model.get_step(),
                "trainable": model.trainable,
                "name": model.name,
                "inference_api_key": model.inference_api_key,
                "inference_base_url": model.inference_base_url,
                "inference_model_name": model.inference_model_name,
            }
            # Cancellation makes Ray cancel the rollout.
            returned = await self._players[number].play.remote(given, scenario)
        except self._ray.exceptions.RayActorError as error:
            is_up = False
            return Unscored("worker_died", " ".join(without_secrets(str(error)).split())[:_SHOWN])
        finally:
            if is_up:
                self._free.put_nowait(number)
            else:
                self._give_back_later(number)
        if isinstance(returned, PrecisError):
            raise returned
        score: Score | Unscored = returned
        return score

    async def _take(self) -> int:
        while True:
            try:
                number = await asyncio.wait_for(self._free.get(), _NONE_UP_S)
            except TimeoutError:
                if not self._up:
                    raise RolloutError(
                        f"None of {self._settings.count} workers has been up for {_NONE_UP_S:g} s.",
                        "See `ray status` on the cluster, and start the step again.",
                    ) from None
                continue
            if number in self._up:
                return number
            self._give_back_later(number)  # it has died since this slot became free

    def _give_back_later(self, number: int) -> None:
        """Free a slot of a worker once Ray has replaced its process."""
        self._up.discard(number)

        async def wait() -> None:
            while True:
                try:
                    await self._players[number].start.remote()
                except self._ray.exceptions.RayError:
                    await asyncio.sleep(0.5)
                else:
                    break
            self._up.add(number)
            self._free.put_nowait(number)

        restart = asyncio.create_task(wait())
        self._restarts.add(restart)
        restart.add_done_callback(self._restarts.discard)

    async def _wait_until_up(self) -> None:
        starts = [asyncio.wrap_future(one.start.remote().future()) for one in self._players]
        _, late = await asyncio.wait(starts, timeout=_START_S)
        errors = []
        for number, start in enumerate(starts):
            if start in late:
                continue
            # All are retrieved: asyncio logs a traceback for each that is not.
            error = start.exception()
            if error is None:
                self._up.add(number)
            else:
                errors.append(error)
        if late:
            cpus = self._ray.cluster_resources().get("CPU", 0)
            raise ConfigError(
                f"{len(late)} of {len(starts)} workers are not up after {_START_S:g} s: the Ray "
                f"cluster has {cpus:g} CPUs, and each takes {self._settings.cpus_each:g}.",
                "Add nodes, or lower `environment.workers.count` or `cpus_each`.",
            )
        if errors:
            of_task = self._ray.exceptions.RayTaskError
            error = errors[0].cause if isinstance(errors[0], of_task) else errors[0]
            what = " ".join(without_secrets(str(error)).split())
            raise ConfigError(
                f"A worker can't open the environment: {what[:_SHOWN]}",
                "Each node of the cluster needs Précis and what the environment imports.",
            )


def check_reach(machines: Collection[str], recorder_host: str) -> None:
    """Refuse workers on several machines if the recorder listens on the loopback only."""
    if len(machines) > 1 and ip_address(recorder_host).is_loopback:
        raise ConfigError(
            f"The Ray cluster has {len(machines)} machines ({', '.join(sorted(machines))}), and "
            f"the recorder listens at {recorder_host}, which only this one reaches.",
            "Set `environment.workers.recorder_host` to this machine's address in their network.",
        )


def connect(ray: Any, settings: WorkersSettings, folder: str) -> None:
    """Connect this process to the cluster of the settings, or start one. Raises ConfigError if the
    cluster can't be used."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    given: dict[str, Any] = {
        "address": settings.address or "local",
        "runtime_env": {"working_dir": folder},
        "logging_level": logging.ERROR,
    }
    if not settings.address:
        cpus = math.ceil(settings.count * settings.cpus_each)
        given |= {"num_cpus": cpus, "object_store_memory": _OBJECTS, "include_dashboard": False}
    where = urlsplit(f"//{settings.address.removeprefix('ray://')}")
    for left in reversed(range(_STARTS)):
        try:
            if where.port:  # Ray would retry there for minutes
                socket.create_connection((where.hostname or "", where.port), _CONNECT_S).close()
            ray.init(**given)
            return
        except Exception as error:  # Ray raises plain ones
            ray.shutdown()  # a connection that failed half-way would fail the next one too
            what = " ".join(without_secrets(str(error)).split())
            if left and any(reason in what for reason in _SLOW_STARTS):
                continue
            cluster = settings.address or "of this machine"
            raise ConfigError(
                f"The Ray cluster {cluster} can't be used: {what[:_SHOWN]}",
                "Start one with `ray start --head`, and set `environment.workers.address` to it.",
            ) from error
