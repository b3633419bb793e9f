"""A trainer on a machine that SkyPilot rents.

    host = SkyPilotHost(config, log=print)
    address = await host.up()       # minutes the first time, seconds when it is there already
    …
    await host.down()

The machine is found again by its name, which follows from model and store, and its trainer by the
keys kept by the process that started it. A trainer that was started with other settings, other keys
of the bucket or other code is replaced. On the machine everything listens on the loopback only.
"""

import asyncio
import math
import shutil
import threading
import time
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from precis.cluster import api
from precis.cluster.api import Cluster, Log
from precis.cluster.keys import Keys, cluster_name, forget_keys, read_keys, write_keys
from precis.cluster.site import Meter, TrainerAddress, answers
from precis.cluster.task import started_from, trainer_task
from precis.cluster.tunnel import Tunnel
from precis.config import RunConfig
from precis.errors import ClusterError, ConfigError, NoCapacity, PrecisError
from precis.runs.lease import Lease

_FOUND_S = 12.0
"""The time for a running trainer to answer through a new tunnel."""
_PING_S = 5.0
_BOOT_S = 20.0
_JOB_S = 5.0
_JOB_FAILURES_MAX = 6
_JOB_ENDED = {"FAILED", "FAILED_SETUP", "FAILED_DRIVER", "CANCELLED", "SUCCEEDED"}


@dataclass(eq=False)
class SkyPilotHost:
    """A rented machine with a trainer on it.

    Args:
        config: the run's settings.
        log: receives the output of SkyPilot and the trainer.
        lease: the run's. All runs of a model with the same SkyPilot share one machine; a run that
            has lost the lease leaves it alone.
        meter: runs while it holds a machine, from the moment that SkyPilot asked for it.
    """

    config: RunConfig
    log: Log
    lease: Lease | None = None
    meter: Meter = field(default_factory=Meter)
    _asked_at: float = math.inf
    _started_from: str = ""
    _connection: AsyncExitStack = field(default_factory=AsyncExitStack)

    @property
    def name(self) -> str:
        return cluster_name(self.config.model, self.config.store)

    async def up(self) -> TrainerAddress:
        """Start the trainer, or find it again; idempotent.

        Raises:
            ClusterError: it could not be started; nothing is left running.
            ConfigError: no retry would help.
            LeaseLost: another run has taken the model over, and its machine with it.
        """
        if shutil.which("ssh") is None:
            raise ConfigError(
                "This machine has no ssh, by which it would reach the rented one.",
                "Install OpenSSH's client.",
            )
        await self.leave()
        if self.lease is not None:
            await self.lease.check()
        try:
            return await self._find() or await self._start()
        except BaseException:
            await self.leave()
            raise

    async def down(self) -> None:
        """Take the machine down, even if another process started it, unless another run has taken
        the lease over and finds the machine; idempotent."""
        await self.leave()
        if self.lease is not None and await self.lease.is_lost():
            taker = self.lease.taker
            if taker is None or taker.machine == self.lease.holder.machine:
                return
            from sky.server.common import is_api_server_local

            if not is_api_server_local():  # but a team's
                return
        await api.down(self.name)
        forget_keys(self.name)

    async def give_back(self, warn: Log) -> None:
        """Take the machine down; `warn` receives a failure, which must not hide how a run ended."""
        try:
            await self.down()
        except PrecisError as error:
            warn(
                f"Cluster {self.name} could not be taken down, and costs money while it is up: "
                f"{error} Run `sky down {self.name}`, or wait for its autostop."
            )

    async def _find(self) -> TrainerAddress | None:
        """Return the running trainer, if it answers and is the one that this run would start."""
        began = time.monotonic()
        keys = read_keys(self.name)
        cluster = await api.find(self.name)
        if keys is None or cluster is None or cluster.status != "UP":
            return None
        # Once: files that change during the run must not end its trainer when a connection drops.
        self._started_from = self._started_from or started_from(self.config)
        if keys.started_from != self._started_from:
            self.log(
                f"The trainer of cluster {self.name} was started with other settings, keys or "
                "code: it is replaced."
            )
            return None
        try:
            address = await self._connect(keys, _FOUND_S)
        except ClusterError:
            self.log(f"The trainer of cluster {self.name} does not answer.")
            return None
        self.meter.note_uptime(time.time() - cluster.launched_at)
        self._hold(cluster, time.time())
        took = time.monotonic() - began
        self.log(f"Found the trainer of cluster {self.name} again, after {took:.1f} s.")
        return address

    async def _start(self) -> TrainerAddress:
        """Start a trainer on the machine, or, if that fails, on a replacement."""
        present = await api.find(self.name, refresh=True)
        if present is None:
            return await self._launch()
        try:
            if present.status == "UP":
                self.meter.note_uptime(time.time() - present.launched_at)
                await api.end_jobs(self.name)
            return await self._launch()
        except NoCapacity:
            raise
        except ClusterError as error:
            self.log(f"Cluster {self.name} is replaced: {error}")
            await self.down()
            return await self._launch()

    async def _launch(self) -> TrainerAddress:
        """Launch the task, which creates, repairs, starts or reuses the machine."""
        if self.lease is not None:
            await self.lease.check()
        self._started_from = started_from(self.config)  # of the files as they are sent
        keys = Keys.new(self._started_from)
        task = trainer_task(self.config, keys)
        write_keys(self.name, keys)
        began = time.time()
        booting = asyncio.create_task(self._watch_boot())
        try:
            job = await api.launch(
                task,
                self.name,
                self.config.cluster.autostop_minutes,
                self.log,
                self.config.cluster.provision_timeout_s,
            )
            cluster = await api.find(self.name)
            if cluster is not None:
                asked_at = min(self._asked_at, cluster.launched_at)
                # A broken machine keeps the time of its last launch until this one reaches it.
                self._hold(cluster, max(began, asked_at))
            return await self._await_trainer(keys, job)
        except BaseException:
            # Leave no machine behind whose trainer never answered.
            await self.give_back(self.log)
            raise
        finally:
            booting.cancel()

    def _hold(self, cluster: Cluster, since: float) -> None:
        """Start the meter of a machine that is held since then."""
        self.meter.start(cluster.price, max(0.0, time.time() - since))
        self.log(
            f"Cluster {self.name} ({cluster.infra}) costs ${cluster.price.usd_per_hour:.2f} an "
            "hour by SkyPilot's catalogue."
        )

    async def _watch_boot(self) -> None:
        """Note when SkyPilot asks a place for the machine, which it forgets once that is up."""
        self._asked_at = math.inf
        while True:
            await asyncio.sleep(_BOOT_S)
            with suppress(PrecisError):
                cluster = await api.find(self.name)
                if cluster is not None and cluster.status == "INIT":
                    self._asked_at = cluster.launched_at

    async def _await_trainer(self, keys: Keys, job: int) -> TrainerAddress:
        followed = (self.name, job, self.log)
        threading.Thread(target=api.follow_log, args=followed, daemon=True).start()
        ending = asyncio.create_task(self._end_of(job))
        patience_s = self.config.cluster.answer_timeout_s
        answering = asyncio.create_task(self._connect(keys, patience_s))
        try:
            await asyncio.wait({ending, answering}, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                await ending  # raises
            return await answering
        finally:
            ending.cancel()
            answering.cancel()

    async def _end_of(self, job: int) -> None:
        """Raise a ClusterError once the trainer has ended, or SkyPilot's answer has failed several
        times in a row: it asks the machine over a network, which may drop a call."""
        failures = 0
        while True:
            await asyncio.sleep(_JOB_S)
            try:
                status = await api.job_status(self.name, job)
            except ClusterError:
                failures += 1
                if failures == _JOB_FAILURES_MAX:
                    raise
                continue
            failures = 0
            if status in _JOB_ENDED:
                raise ClusterError(
                    f"The trainer on cluster {self.name} ended ({status}) before it answered; what "
                    "it printed is in the log above."
                )

    async def _connect(self, keys: Keys, patience_s: float) -> TrainerAddress:
        """Return the trainer's address at this end of a new tunnel, once it answers there."""
        # Named, since ssh looks in the account's home and not in $HOME, where SkyPilot writes it.
        configuration = Path.home() / ".sky/generated/ssh" / self.name
        tunnel = Tunnel(["ssh", "-F", str(configuration), self.name], keys.port, self.log)
        self._connection.push_async_callback(tunnel.close)
        address = TrainerAddress(tunnel.url, keys.token)
        try:
            async with asyncio.timeout(patience_s):
                while not await answers(address):  # noqa: ASYNC110  another machine sets no event
                    await asyncio.sleep(0.5)
        except TimeoutError as error:
            await self.leave()
            raise ClusterError(
                f"The trainer on cluster {self.name} did not answer within {patience_s:.0f} s.",
                "See its log above, or give it longer (cluster.answer_timeout_s).",
            ) from error
        self._connection.callback(asyncio.create_task(_ping(address)).cancel)
        return address

    async def leave(self) -> None:
        """Leave the machine running: `up` finds it again, or autostop takes it down."""
        self.meter.stop()
        await self._connection.aclose()


async def _ping(address: TrainerAddress) -> None:
    """Send the trainer a heartbeat, also while it has no requests."""
    while True:
        await asyncio.sleep(_PING_S)
        await answers(address)
