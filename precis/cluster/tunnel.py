"""An ssh tunnel from a port of this machine's loopback to one of the cluster's."""

import asyncio
from collections.abc import Sequence

from precis.cluster.api import Log
from precis.processes.child import free_port

_PAUSES_S = (0.2, 0.5, 1, 2, 5)
"""Pauses before each reconnection, in seconds; the last one repeats."""
_STEADY_S = 60.0
"""A connection that has lasted for so long is a good one: it is made again at once."""


class Tunnel:
    """Forwards `url` to a port of the cluster's loopback until closed, and reconnects when the
    connection drops. It is made before the connection is up.

    Args:
        ssh: the ssh command, ending with the cluster's name.
        port: the port on the cluster's loopback.
    """

    def __init__(self, ssh: Sequence[str], port: int, log: Log) -> None:
        self._ssh = tuple(ssh)
        self._port = port
        self._log = log
        self._local_port = free_port()
        self._keeping = asyncio.create_task(self._keep())

    @property
    def url(self) -> str:
        """The local end; it stays the same across reconnections."""
        return f"http://127.0.0.1:{self._local_port}"

    async def close(self) -> None:
        """Disconnect; idempotent."""
        self._keeping.cancel()
        await asyncio.wait({self._keeping})  # this task's own cancellation is not lost

    async def _keep(self) -> None:
        drops = 0
        while True:
            began = asyncio.get_running_loop().time()
            said = await self._connection()
            lasted = asyncio.get_running_loop().time() - began
            drops = 1 if lasted > _STEADY_S else drops + 1
            if drops == 1:
                self._log(f"The tunnel to {self._ssh[-1]} dropped after {lasted:.0f} s: {said}")
            await asyncio.sleep(_PAUSES_S[min(drops, len(_PAUSES_S)) - 1])

    async def _connection(self) -> str:
        """Hold one connection until it ends; return ssh's last message."""
        program, *rest = self._ssh
        forward = f"127.0.0.1:{self._local_port}:127.0.0.1:{self._port}"
        options = (
            "-oBatchMode=yes",
            "-oConnectTimeout=15",
            "-oExitOnForwardFailure=yes",
            # A machine that vanished is noticed after three of these.
            "-oServerAliveInterval=5",
            "-oServerAliveCountMax=3",
            "-oLogLevel=ERROR",
        )
        try:
            process = await asyncio.create_subprocess_exec(
                *[program, "-N", "-L", forward, *options, *rest],
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,  # Ctrl-C goes to us only, and we then close it properly
            )
        except OSError as error:
            return f"{program} could not be started: {error.strerror}."
        try:
            _, said = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return said.decode(errors="replace").strip().rpartition("\n")[2] or "ssh said nothing."
