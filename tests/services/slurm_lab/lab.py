"""The lab's daemons: munge, Slurm's controller and node, an ssh server, SkyPilot's API server."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.services.slurm_lab.files import Layout, write_files
from tests.services.slurm_lab.packages import LabImpossible, ensure_packages

USER = "precis-lab"
_DAEMONS = ("slurmd", "slurmctld", "sshd", "munged")
_BIN = Path(sys.executable).parent


class SlurmLab:
    """A running lab; commands given to it are led to this lab and no other."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.home = layout.home
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("SKY")},
            **layout.environment,
            "PATH": f"{_BIN}:{os.environ['PATH']}",
        }

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

    def jobs(self) -> dict[str, str]:
        """The machines that are up or waited for, by the names that SkyPilot gives them."""
        lines = self.run("squeue", "-h", "-o", "%j %T").splitlines()
        return dict(line.split() for line in lines)

    def lose(self, cluster: str) -> None:
        """Take the cluster's machine away without a word to anybody."""
        names = [name for name in self.jobs() if name.startswith(cluster)]
        self.run("scancel", *(f"--name={name}" for name in names))


@contextmanager
def slurm_lab() -> Iterator[SlurmLab]:
    """A lab that lasts as long as the block, and leaves nothing but Debian packages behind."""
    ensure_packages()
    # Munge and sshd insist that all parents of their files can be entered by everybody.
    base = Path(tempfile.mkdtemp(prefix="precis-lab-"))
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


def _layout(base: Path) -> Layout:
    node = socket.gethostname().partition(".")[0]
    # SkyPilot looks its own address up by name and wants to find it among the cluster's.
    try:
        address = socket.gethostbyname(node)
    except OSError:
        address = "127.0.0.1"
    return Layout(base, USER, node, address, *_free_ports(4))


def _free_ports(count: int) -> list[int]:
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports


def _make_user(layout: Layout) -> None:
    with suppress(KeyError):
        pwd.getpwnam(USER)
        _end(_of_user())  # a session that was killed left it behind
        subprocess.run(["userdel", USER], check=True, capture_output=True)
    home = ("--create-home", "--home-dir", str(layout.login), "--shell", "/bin/bash")
    # A password that nobody has: sshd takes useradd's own for a locked account.
    subprocess.run(["useradd", "--system", *home, "--password", "*", USER], check=True)


def _make_keys(folder: Path) -> None:
    folder.mkdir()
    for name in ("login", "host"):
        key = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(key, check=True)
    (folder / "munge").write_bytes(os.urandom(128))


def _start(lab: SlurmLab) -> None:
    base = lab.layout.base
    _start_munge(lab)
    lab.run("slurmctld")
    lab.run("slurmd", "-N", lab.layout.node)
    Path("/run/sshd").mkdir(exist_ok=True)
    lab.run("/usr/sbin/sshd", "-f", f"{base}/etc/sshd_config", "-E", f"{base}/log/sshd.log")
    until = time.monotonic() + 30
    while lab.run("sinfo", "-h", "-p", "gpu", "-o", "%t").strip() != "idle":
        if time.monotonic() > until:
            raise LabImpossible(f"Slurm's node is not idle after 30 s; see {base}/log.")
        time.sleep(0.3)
    _start_sky(lab)


def _start_sky(lab: SlurmLab) -> None:
    """Start SkyPilot's server, whose process now and then ends while it starts."""
    for tries_left in (2, 1, 0):
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
    as_munge = ("setpriv", "--reuid", "munge", "--regid", "munge", "--clear-groups")
    files = {
        "key-file": "private/key",
        "socket": "socket",
        "pid-file": "munged.pid",
        "log-file": "munged.log",
        "seed-file": "munged.seed",
    }
    lab.run(*as_munge, "munged", *(f"--{key}={folder}/{name}" for key, name in files.items()))
    (lab.layout.base / "run/munged.pid").symlink_to(folder / "munged.pid")


def _stop(lab: SlurmLab) -> None:
    """Stop what was started, by pid, and whatever else the lab's own account runs."""
    for command in (("sky", "api", "stop"), ("scancel", f"--user={USER}")):
        with suppress(LabImpossible, subprocess.TimeoutExpired):
            lab.run(*command, timeout_s=60)
    pids = [_pid(lab, name) for name in _DAEMONS]
    _end([pid for pid in pids if pid])
    _end(_of_user())
    for path in Path("/tmp").iterdir():  # SkyPilot's scratch files, at paths that it hard-codes
        with suppress(OSError, KeyError):
            if path.owner() == USER:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
    subprocess.run(["userdel", USER], capture_output=True)
    shutil.rmtree(lab.layout.base, ignore_errors=True)


def _pid(lab: SlurmLab, daemon: str) -> int | None:
    try:
        return int((lab.layout.base / f"run/{daemon}.pid").read_text())
    except (OSError, ValueError):
        return None


def _of_user() -> list[int]:
    found = subprocess.run(["pgrep", "-u", USER], capture_output=True, text=True)
    return [int(pid) for pid in found.stdout.split()]


def _end(pids: list[int]) -> None:
    for sent in (signal.SIGTERM, signal.SIGKILL):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, sent)
        until = time.monotonic() + 5
        while time.monotonic() < until and any(Path(f"/proc/{pid}").exists() for pid in pids):
            time.sleep(0.1)
