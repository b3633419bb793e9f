"""The holder of a lease, and the test whether it is still alive.

On the machine where the lease was taken it is dead as soon as its process is gone. Seen from
elsewhere it is dead when it has expired by the reader's clock, with a margin for clocks that
differ.
"""

import os
import socket
from datetime import datetime, timedelta
from pathlib import Path

from pydantic import AwareDatetime

from precis.processes.supervisor import find_process
from precis.record import Count, Record, json_digest

_CLOCKS_DIFFER = timedelta(seconds=30)


class Holder(Record):
    """The holder of a lease, and its time of expiry; the content of `lease.json`."""

    run: str
    """The run's name or id, as its user knows it."""
    host: str
    pid: Count
    machine: str
    """Boot and process namespace, in which `pid` is unique; empty if unknown."""
    process_started: str
    """The process's start by the kernel's clock; a later process can have the same pid."""
    since: AwareDatetime
    """The time at which the lease was taken."""
    expires: AwareDatetime
    """The time at which it ends unless renewed, by the holder's clock."""
    renewals: Count = 0
    """Times it was renewed, so that no two writes of a lease are the same."""
    released: bool = False
    """True once the holder gave it back."""

    @property
    def id(self) -> str:
        """The lease's unique name, the same at each renewal."""
        since = self.since.isoformat()
        who = (self.run, self.machine, self.host, self.pid, self.process_started, since)
        return json_digest(who)[:16]

    @property
    def is_this_process(self) -> bool:
        """True if this process took the lease, and has not given it back."""
        mine = this_process(self.run, self.since, timedelta())
        return mine.id == self.id and not self.released

    def __str__(self) -> str:
        return f"the run {self.run} (process {self.pid} on {self.host})"


def this_process(run: str, now: datetime, ttl: timedelta) -> Holder:
    """This process as the holder of a lease taken now."""
    process = find_process(os.getpid())
    return Holder(
        run=run,
        host=socket.gethostname(),
        pid=os.getpid(),
        machine=_machine(),
        process_started=str(process.started) if process else "",
        since=now,
        expires=now + ttl,
    )


def is_alive(holder: Holder, now: datetime) -> bool:
    """Return whether a lease must be respected."""
    if holder.released:
        return False
    if holder.machine and holder.machine == _machine():
        process = find_process(holder.pid)
        return process is not None and str(process.started) == holder.process_started
    return now - _CLOCKS_DIFFER <= holder.expires


def _machine() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}:{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:  # not Linux: the clock alone decides
        return ""
