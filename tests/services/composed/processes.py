"""The services of compose.yaml as processes, on a machine of their own that the kernel makes.

    unshare … python -m tests.services.composed.processes FOLDER PASSWORD

In a network with nothing but a loopback, and a file system in which the checkout lies at /precis
and the volumes where the file says, each service is started with the file's own command and
environment, once the file's own health checks find those well that it waits for. Addresses and
ports are the file's: the names of services lead to the loopback. Then a run is made.

What the image of PostgreSQL does with its variables is done here with Debian's PostgreSQL. The
bucket is moto's. Everything ends with the process, whose end takes its namespace along.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.services.composed.file import Service, image_environment, services
from tests.services.composed.rehearsal import rehearse
from tests.services.patience import LONG_S
from tests.services.postgres_server import binaries
from tests.services.s3_server import variables_for
from tests.support.repository import ROOT

PROGRAM = "tests.services.composed.processes"
NAMESPACES = (
    *("unshare", "--net", "--mount", "--ipc", "--pid"),
    *("--fork", "--kill-child", "--mount-proc"),
)
_HOME = Path("/precis")
_DATABASE = Path("/var/lib/postgresql")
_S3 = "127.0.0.1:5000"
ENV_FILE = {**variables_for(f"http://{_S3}"), "PRECIS_STORE": "s3://precis-composed/runs"}
"""A team's `.env`: runs go to a bucket."""


def main(folder: str, password: str) -> None:
    """Start everything, make a run, and print what the store then lists."""
    variables = {"POSTGRES_PASSWORD": "correcthorse", "PREFECT_SERVER_API_AUTH_STRING": password}
    found = services(variables, ENV_FILE)
    _make_machine(Path(folder) / "root", found)
    host, port = _S3.split(":")
    _start("s3", [sys.executable, "-m", "moto.server", "-H", host, "-p", port], dict(os.environ))
    for service in found:
        environment = _environment_of(service)
        process = _start(service.name, _command_of(service), environment)
        _wait_until_healthy(service, environment, process)
    rehearse(password)
    worker = next(one for one in found if one.name == "worker")
    listed = _output(["precis", "runs", "list", "--json"], _environment_of(worker))
    print(json.dumps({"order": [one.name for one in found], "runs": json.loads(listed)}))


def _make_machine(root: Path, found: Sequence[Service]) -> None:
    """A loopback, and a file system as in the containers, which this process then lives in."""
    _run("ip", "link", "set", "lo", "up")
    root.mkdir()
    _run("mount", "-t", "tmpfs", "tmpfs", root)
    for entry in Path("/").iterdir():
        if entry.is_symlink():
            (root / entry.name).symlink_to(entry.readlink())
        elif entry.is_dir():
            (root / entry.name).mkdir()
            _run("mount", "--rbind", entry, root / entry.name)
    _run("mount", "-t", "tmpfs", "tmpfs", root / "dev/shm")
    _put_checkout(root)
    hosts = root / "hosts"
    hosts.write_text(f"127.0.0.1 localhost {' '.join(one.name for one in found)}\n")
    _run("mount", "--bind", hosts, root / "etc/hosts")
    os.chroot(root)
    os.chdir(_HOME)
    for service in found:
        for path in service.volumes.values():
            _make_volume(Path(path))


def _put_checkout(root: Path) -> None:
    """The checkout at /precis, where what is written leaves the real one as it is."""
    layers = {name: root / ".overlay" / name for name in ("upperdir", "workdir")}
    for layer in layers.values():
        layer.mkdir(parents=True)
    options = ",".join(f"{name}={path}" for name, path in layers.items())
    target = root / _HOME.relative_to("/")
    target.mkdir(exist_ok=True)
    _run("mount", "-t", "overlay", "overlay", "-o", f"lowerdir={ROOT},{options}", target)
    (target / ".env").unlink(missing_ok=True)  # which the image has not


def _make_volume(path: Path) -> None:
    """An empty folder where a volume is mounted."""
    if not path.is_relative_to(_HOME):
        _run("mount", "-t", "tmpfs", "tmpfs", path.parent)
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()


def _environment_of(service: Service) -> dict[str, str]:
    """What the service's process has in its environment: the image's, and the file's."""
    plain = {"PATH": os.environ["PATH"], "HOME": str(_HOME), "LANG": "C.UTF-8"}
    if service.image == "precis":
        plain["PYTHONPATH"] = str(_HOME)  # where the image has the package installed from
        plain["PATH"] = f"{Path(sys.executable).parent}:{plain['PATH']}"
        for name, value in image_environment(ROOT / "deployments" / "Dockerfile"):
            plain[name] = value.replace("$PATH", plain["PATH"])
    else:
        plain["PATH"] = f"{binaries()}:{plain['PATH']}"
        plain["PGHOST"] = str(_DATABASE)  # where its socket is
    return {**plain, **service.environment}


def _command_of(service: Service) -> Sequence[str]:
    if service.image == "precis":
        return service.command
    assert service.image.startswith("postgres:"), service.image
    return _make_database(service)


def _make_database(service: Service) -> Sequence[str]:
    """What the image of PostgreSQL makes when it is started for the first time, and its command."""
    data = _DATABASE / "data"
    assert str(data) in service.volumes.values()
    for folder in (_DATABASE, data):
        shutil.chown(folder, "postgres")
    given = service.environment
    secret = _DATABASE / "password"
    secret.write_text(given["POSTGRES_PASSWORD"])
    secret.chmod(0o644)
    as_owner = ("runuser", "-u", "postgres", "--")
    owner = ("-U", given["POSTGRES_USER"])
    programs = binaries()
    secured = ("-A", "scram-sha-256", f"--pwfile={secret}")
    _run(*as_owner, programs / "initdb", "-D", data, *owner, *secured)
    single = (*as_owner, programs / "postgres", "--single", "-D", data, "postgres")
    create = f'CREATE DATABASE "{given["POSTGRES_DB"]}"'
    subprocess.run([*map(str, single)], input=create, text=True, check=True, stdout=sys.stderr)
    options = ("-D", str(data), "-c", "fsync=off", "-k", str(_DATABASE))
    return [*as_owner, str(programs / "postgres"), *options]


def _start(
    name: str, command: Sequence[str], environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    print(f"{name}: {' '.join(command)}", file=sys.stderr, flush=True)
    return subprocess.Popen(command, env=environment, stdout=sys.stderr, stderr=sys.stderr)


def _wait_until_healthy(
    service: Service, environment: Mapping[str, str], process: subprocess.Popen[bytes]
) -> None:
    """Ask by the service's own check, for as long as a slow machine may take."""
    deadline = time.monotonic() + LONG_S
    while True:
        done = subprocess.run(
            service.health,
            env=environment,
            timeout=LONG_S,
            stdout=sys.stderr,
            stderr=sys.stderr,
        )
        if done.returncode == 0:
            return
        assert process.poll() is None, f"{service.name} ended with {process.returncode}"
        assert time.monotonic() < deadline, f"{service.name} does not get healthy"
        time.sleep(1)


def _output(command: Sequence[str], environment: Mapping[str, str]) -> str:
    done = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, stderr=sys.stderr, check=True
    )
    return done.stdout.decode()


def _run(*command: str | Path) -> None:
    subprocess.run(list(map(str, command)), check=True, stdout=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
