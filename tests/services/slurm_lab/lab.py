"""The lab's daemons: munge, Slurm's controller and node, an ssh server, SkyPilot's API server."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from tests.services.needs import leave_out, need
from tests.services.patience import wait_until
from tests.services.slurm_lab.files import LabImpossible, Layout, write_files
from tests.support.guard import new_account, remove_account, remove_folder, temporary_folder

_BIN = Path(sys.executable).parent
_AS_MUNGE = ("--reuid", "munge", "--regid", "munge", "--clear-groups")
_PROGRAMS = {
    "slurm-wlm": ("slurmctld", "slurmd", "sbatch"),
    "munge": ("munged",),
    "openssh-server": ("sshd",),
    "openssh-client": ("ssh", "ssh-keygen"),
    "rsync": ("rsync",),
    "iproute2": ("ss",),
}


class SlurmLab:
    """A running lab; commands given to it are led to this lab and no other."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.home = layout.home
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("SKY")},
            **layout.environment,
            "PATH": f"{_BIN}:{os.environ['PATH']}:/usr/sbin",
        }
        self.daemons: list[subprocess.Popen[bytes]] = []

    def run(self, *command: str, timeout_s: float = 120) -> str:
        """A command's output.

        Raises:
            LabImpossible: it failed; the message ends with what it printed.
        """
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=timeout_s
        )
        if done.returncode != 0:
            printed = (done.stdout + done.stderr).strip()[-1500:]
            raise LabImpossible(f"{' '.join(command)} ended with {done.returncode}:\n{printed}")
        return done.stdout

    def start(self, *command: str, switch: tuple[str, ...] = ()) -> None:
        """Start a daemon that stays in the foreground, and that the kernel kills with us.

        Args:
            switch: to whom, in the words of setpriv.
        """
        # sshd writes over its environment, by which the guard would know it.
        mortal = ("setpriv", *switch, "--pdeathsig", "KILL", "--", *command)
        with (self.layout.base / "log/daemons.log").open("ab") as log:
            self.daemons.append(
                subprocess.Popen(mortal, env=self.environment, stdout=log, stderr=log)
            )

    def said(self) -> str:
        """The end of what the daemons have printed."""
        return (self.layout.base / "log/daemons.log").read_text(errors="replace")[-1500:]

    def jobs(self) -> dict[str, str]:
        """The machines that are up or waited for, by the names that SkyPilot gives them."""
        lines = self.run("squeue", "-h", "-o", "%j %T").splitlines()
        return dict(line.split() for line in lines)

    def give_notice(self, cluster: str, program: str) -> None:
        """Tell a program on the cluster's machine to end, as a cloud does before it takes that."""
        for machine in self._machines(cluster):
            for process in self._processes_on(machine):
                with suppress(psutil.NoSuchProcess):
                    if program in process.cmdline():
                        process.terminate()

    def lose(self, cluster: str) -> None:
        """Take the cluster's machine away without a word to anybody, and its disk with it."""
        machines = self._machines(cluster)
        with self._nothing_starts():
            for machine in machines:
                self._cut_power(machine)
            gone = "the end of the machine's job"
            wait_until(lambda: not set(machines) & set(self.jobs()), gone, told=self.said)
            for machine in machines:
                for disk in self.layout.disks(machine):
                    lost = f"{machine}-{disk.parent.name}-{time.time_ns()}"
                    disk.rename(self.layout.lost / lost)

    def _machines(self, cluster: str) -> list[str]:
        machines = [name for name in self.jobs() if name.startswith(cluster)]
        assert machines, f"{cluster} has no machine"
        return machines

    def _cut_power(self, machine: str) -> None:
        """End all that runs on a machine.

        Slurm would end it in some order, in which SkyPilot's script on the machine has the time to
        tidy up, and what has left its parent stays: both may reach into the folders of the
        machine's successor, which has the same.
        """
        for sent in (signal.SIGSTOP, signal.SIGKILL):
            for process in self._processes_on(machine):
                with suppress(psutil.NoSuchProcess):
                    process.send_signal(sent)

    def _processes_on(self, machine: str) -> list[psutil.Process]:
        job = self.run("squeue", "-h", f"--name={machine}", "-o", "%A").strip()
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                # Another lab's jobs have the same numbers.
                ours = process.username() == self.layout.user
                if ours and process.environ().get("SLURM_JOB_ID") == job:
                    found.append(process)
        return found

    @contextmanager
    def _nothing_starts(self) -> Iterator[None]:
        partition = ("scontrol", "update", "PartitionName=gpu")
        self.run(*partition, "State=DOWN")
        try:
            yield
        finally:
            self.run(*partition, "State=UP")


@contextmanager
def slurm_lab() -> Iterator[SlurmLab]:
    """A lab that lasts as long as the block."""
    _check_packages()
    # Munge and sshd insist that all parents of their files can be entered by everybody.
    base = temporary_folder("lab")
    base.chmod(0o755)
    lab = SlurmLab(_layout(base))
    try:
        _make_user(lab.layout)
        _make_keys(base / "keys")
        write_files(lab.layout)
        _start(lab)
        yield lab
    finally:
        _stop(lab)


def _check_packages() -> None:
    """Leave the test out where the lab can't be."""
    if os.geteuid() != 0:
        leave_out("a private Slurm and ssh server can be started by root alone")
    for package, programs in _PROGRAMS.items():
        need(package, *programs)


def _layout(base: Path) -> Layout:
    node = socket.gethostname().partition(".")[0]
    # SkyPilot looks its own address up by name and wants to find it among the cluster's.
    try:
        address = socket.gethostbyname(node)
    except OSError:
        address = "127.0.0.1"
    return Layout(base, new_account(), node, address, *_free_ports(4))


def _free_ports(count: int) -> list[int]:
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports


def _make_user(layout: Layout) -> None:
    home = ("--create-home", "--home-dir", str(layout.login), "--shell", "/bin/bash")
    # A password that nobody has: sshd takes useradd's own for a locked account.
    command = ["useradd", "--system", *home, "--password", "*", layout.user]
    subprocess.run(command, check=True)


def _make_keys(folder: Path) -> None:
    folder.mkdir()
    for name in ("login", "host"):
        key = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(key, check=True)
    (folder / "munge").write_bytes(os.urandom(128))


def _start(lab: SlurmLab) -> None:
    base = lab.layout.base
    _start_munge(lab)
    lab.start("slurmctld", "-D")
    lab.start("slurmd", "-D", "-N", lab.layout.node)
    Path("/run/sshd").mkdir(exist_ok=True)
    log = ("-E", f"{base}/log/sshd.log")
    lab.start("/usr/sbin/sshd", "-D", "-f", f"{base}/etc/sshd_config", *log)
    bound = ("--bind", "127.0.0.1", "--directory", f"{base}/run")
    lab.start(sys.executable, "-m", "http.server", *bound, str(lab.layout.probe_port))
    wait_until(lambda: _node_state(lab) == "idle", "an idle node of Slurm's", told=lab.said)
    _start_sky(lab)


def _node_state(lab: SlurmLab) -> str:
    try:
        return lab.run("sinfo", "-h", "-p", "gpu", "-o", "%t").strip()
    except LabImpossible:
        return "without a controller, which is starting"


def _start_sky(lab: SlurmLab) -> None:
    """Start SkyPilot's server.

    It ends while it starts where its second port is taken, which it counts off from the first.
    """
    for tries_left in (2, 1, 0):
        [port] = _free_ports(1)
        lab.environment["SKYPILOT_API_SERVER_LOCAL_PORT"] = str(port)
        try:
            lab.run("sky", "api", "start")
            return
        except LabImpossible as error:
            log = lab.home / ".sky/api_server/server.log"
            said = log.read_text(errors="replace")[-3000:] if log.exists() else "nothing"
            print(f"{error}\nThe server's log ends with:\n{said}")
            if not tries_left:
                raise


def _start_munge(lab: SlurmLab) -> None:
    folder = lab.layout.base / "munge"
    (folder / "private").mkdir(parents=True)
    shutil.copy(lab.layout.base / "keys/munge", folder / "private/key")
    (folder / "private/key").chmod(0o400)
    for path in (folder, folder / "private", folder / "private/key"):
        shutil.chown(path, "munge", "munge")
    (folder / "private").chmod(0o700)
    files = {
        "key-file": "private/key",
        "socket": "socket",
        "pid-file": "munged.pid",
        "log-file": "munged.log",
        "seed-file": "munged.seed",
    }
    options = [f"--{key}={folder}/{name}" for key, name in files.items()]
    lab.start("munged", "--foreground", *options, switch=_AS_MUNGE)
    wait_until((folder / "socket").exists, "munge's socket", told=lab.said)


def _stop(lab: SlurmLab) -> None:
    """Stop what was started, and whatever else the lab's own account runs."""
    for command in (("sky", "api", "stop"), ("scancel", f"--user={lab.layout.user}")):
        with suppress(LabImpossible, subprocess.TimeoutExpired):
            lab.run(*command, timeout_s=60)
    for daemon in reversed(lab.daemons):
        daemon.terminate()
    for daemon in lab.daemons:
        try:
            daemon.wait(10)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()
    remove_account(lab.layout.user)
    remove_folder(lab.layout.base)
