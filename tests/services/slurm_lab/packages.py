"""What the lab needs of the machine that it runs on."""

import os

from tests.services.needs import leave_out, need

_PROGRAMS = {
    "slurm-wlm": ("slurmctld", "slurmd", "sbatch"),
    "munge": ("munged",),
    "openssh-server": ("sshd",),
    "openssh-client": ("ssh", "ssh-keygen"),
    "rsync": ("rsync",),
    "iproute2": ("ss",),
}


class LabImpossible(Exception):
    """The lab does not come up, or one of its commands failed; the message says why."""


def check_packages() -> None:
    """Leave the test out where the lab can't be."""
    if os.geteuid() != 0:
        leave_out("a private Slurm and ssh server can be started by root alone")
    for package, programs in _PROGRAMS.items():
        need(package, *programs)
