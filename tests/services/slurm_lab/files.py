"""What the lab's daemons, its jobs and its SkyPilot client read."""

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

GPUS = 4
_DEVICES = ("null", "zero", "full", "random")
"""slurmd drops a GPU that has no device file of its own; these exist everywhere, and nothing
opens them."""

_PASSED_ON = ("SSL_CERT_", "REQUESTS_CA_", "CURL_CA_", "UV_", "PIP_", "HTTP_", "HTTPS_", "NO_PROXY")
"""The settings by which pip and uv reach their index, in the tests and so in the jobs."""


class LabImpossible(Exception):
    """The lab does not come up, or one of its commands failed; the message says why."""


@dataclass
class Layout:
    """Where the lab's things lie, and the ports that it listens on, all on the loopback.

    Attributes:
        user: the account that the jobs run under.
        home: HOME of the SkyPilot client.
        login: HOME of the jobs' account.
        runtime: where SkyPilot keeps what a machine knows of its jobs.
        lost: the disks of machines that were lost.
        cache: where uv keeps what one machine has downloaded, for the next.
        bytecode: where machines keep compiled modules: a successor at the same path has them.
    """

    base: Path
    user: str
    node: str
    address: str
    ssh_port: int
    controller_port: int
    node_port: int
    probe_port: int

    def __post_init__(self) -> None:
        self.home = self.base / "home"
        self.login = self.base / "login"
        self.runtime = self.base / "runtime"
        self.lost = self.base / "lost"
        self.cache = self.base / "uv-cache"
        self.bytecode = self.base / "bytecode"

    def disks(self, machine: str) -> list[Path]:
        """The folders that stand for a machine's disk."""
        return [self.login / ".sky_clusters" / machine, self.runtime / machine]

    @property
    def environment(self) -> dict[str, str]:
        """The variables that lead Slurm's and SkyPilot's commands to this lab."""
        return {
            "HOME": str(self.home),
            "SLURM_CONF": str(self.base / "etc/slurm.conf"),
            "SKYPILOT_DISABLE_USAGE_COLLECTION": "1",
            # What SkyPilot takes the machine to have: the more memory, the more processes of the
            # jobs controller it starts.
            "SKYPILOT_POD_MEMORY_GB_LIMIT": "9",
            "PYTHONPATH": str(self.base / "python"),
        }


def write_files(lab: Layout) -> None:
    """Write everything below the lab's folder; its keys exist already."""
    for name in ("bin", "etc", "log", "python", "run", "slurm/state", "slurm/spool", "home/.slurm"):
        (lab.base / name).mkdir(parents=True, exist_ok=True)
    lab.lost.mkdir()
    for folder in (lab.cache, lab.bytecode):
        folder.mkdir()
        shutil.chown(folder, lab.user)
    lab.runtime.mkdir()
    lab.runtime.chmod(0o1777)
    _write_for_daemons(lab)
    _write_for_jobs(lab)
    _write_for_client(lab)


def _write_for_daemons(lab: Layout) -> None:
    etc = lab.base / "etc"
    (etc / "slurm.conf").write_text(_SLURM.format(lab=lab, gpus=GPUS))
    gpus = (f"Name=gpu Type=h100 File=/dev/{device}\n" for device in _DEVICES[:GPUS])
    (etc / "gres.conf").write_text("".join(gpus))
    (etc / "cgroup.conf").write_text("CgroupAutomount=no\n")
    (etc / "sshd_config").write_text(_SSHD.format(lab=lab))
    (etc / "authorized_keys").write_text((lab.base / "keys/login.pub").read_text())


def _write_for_jobs(lab: Layout) -> None:
    """uv where SkyPilot looks for it, with the Python that is there for the one it asks for."""
    tools = lab.base / "bin"
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert uv, "uv is among the development dependencies"
    shutil.copy(uv, tools / "real-uv")
    _script(tools / "uv", _UV.format(lab=lab, python=_python_of_all()))
    _script(tools / "prolog", _PROLOG.format(lab=lab, exports=_exports()))


def _write_for_client(lab: Layout) -> None:
    config = lab.home / ".slurm/config"
    config.write_text(_SLURM_HOST.format(lab=lab))
    config.chmod(0o600)
    catalog = lab.home / ".sky/catalogs/v8/common"
    catalog.mkdir(parents=True)
    # SkyPilot would download its list of accelerators.
    (catalog / "accelerators.csv").write_text("AcceleratorName,Clouds\nH100,['Slurm']\n")
    (lab.home / ".sky/config.yaml").write_text(_SKY.format(lab=lab))
    (lab.base / "python/sitecustomize.py").write_text(_PROBE.format(lab=lab))


def _python_of_all() -> str:
    """A Python that the jobs' account may run; the tests' own may lie in root's home."""
    system = "/usr/local/bin:/usr/bin:/bin"
    for name in ("python3.12", "python3.11", "python3"):
        if (found := shutil.which(name, path=system)) is not None:
            return found
    raise LabImpossible(f"The cluster tests need a python3 in {system} that all users may run.")


def _exports() -> str:
    passed = {name: value for name, value in os.environ.items() if name.startswith(_PASSED_ON)}
    return "".join(f"echo 'export {name}={value}'\n" for name, value in passed.items())


def _script(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


_SLURM = """\
ClusterName=lab
SlurmctldHost={lab.node}({lab.address})
SlurmctldPort={lab.controller_port}
SlurmdPort={lab.node_port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={lab.base}/munge/socket
StateSaveLocation={lab.base}/slurm/state
SlurmdSpoolDir={lab.base}/slurm/spool
SlurmctldPidFile={lab.base}/run/slurmctld.pid
SlurmdPidFile={lab.base}/run/slurmd.pid
SlurmctldLogFile={lab.base}/log/slurmctld.log
SlurmdLogFile={lab.base}/log/slurmd.log
# Nothing that a container would refuse: no cgroups, no accounting, no MPI.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
TaskProlog={lab.base}/bin/prolog
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=1024
GresTypes=gpu
# What is said below counts, not what the machine has.
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=5
SchedulerParameters=sched_interval=5,batch_sched_delay=1
NodeName={lab.node} NodeHostname={lab.node} NodeAddr={lab.address} CPUs=64 RealMemory=262144 \
Gres=gpu:h100:{gpus} State=UNKNOWN
PartitionName=gpu Nodes={lab.node} Default=YES MaxTime=1-00:00:00 State=UP
# Takes jobs and never starts them, like a cloud without capacity.
PartitionName=full Nodes={lab.node} MaxTime=1-00:00:00 State=DOWN
"""

_SSHD = """\
ListenAddress 127.0.0.1
Port {lab.ssh_port}
HostKey {lab.base}/keys/host
PidFile {lab.base}/run/sshd.pid
AuthorizedKeysFile {lab.base}/etc/authorized_keys .ssh/authorized_keys
AcceptEnv SKY_CLUSTER_NAME
AllowUsers {lab.user}
PasswordAuthentication no
UsePAM no
StrictModes no
PrintMotd no
MaxStartups 100
MaxSessions 100
SetEnv SLURM_CONF={lab.base}/etc/slurm.conf
"""

_SLURM_HOST = """\
Host lab
    HostName 127.0.0.1
    Port {lab.ssh_port}
    User {lab.user}
    IdentityFile {lab.base}/keys/login
    IdentitiesOnly yes
"""

_SKY = """\
slurm:
  # The default waits a day for capacity.
  provision_timeout: 15
  cluster_configs:
    lab:
      tmpdir: {lab.runtime}
jobs:
  controller:
    # Slurm can't host the controller of managed jobs: it is part of the API server.
    consolidation_mode: true
"""

_PROBE = """\
# The jobs controller looks whether there is a network before it believes that a machine is lost,
# and asks two servers of the internet. Here it asks one on the loopback.
import sys

if "-msky.jobs.controller" in sys.orig_argv:
    from sky.backends import backend_utils

    backend_utils._TEST_IP_LIST = ["http://127.0.0.1:{lab.probe_port}"]
"""

_UV = """\
#!/bin/bash
arguments=("$@")
for i in "${{!arguments[@]}}"; do
  case "${{arguments[i]}}" in 3.10|3.12) arguments[i]={python} ;; esac
done
export UV_PYTHON_DOWNLOADS=never UV_CACHE_DIR={lab.cache}
exec {lab.base}/bin/real-uv "${{arguments[@]}}"
"""

_PROLOG = """\
#!/bin/bash
# Slurm takes the lines that say export into the task's environment.
echo 'export PYTHONPYCACHEPREFIX={lab.bytecode}'
{exports}
for home in {lab.login}/.sky_clusters/*/; do
  [ -d "$home" ] || continue
  mkdir -p "$home.local/bin"
  ln -sfn {lab.base}/bin/uv "$home.local/bin/uv"
done 2>/dev/null
exit 0
"""
