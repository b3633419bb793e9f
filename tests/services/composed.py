"""The shared set-up of compose.yaml: its services as processes, and a small run on its worker.

    unshare … python -m tests.services.composed FOLDER PASSWORD

The services run on a machine of their own that the kernel makes, in a network with nothing but a
loopback, and a file system in which the checkout lies at /precis and the volumes where the file
says. Each is started with the file's own command and environment, once the file's own health checks
find those well that it waits for. Addresses and ports are the file's: the names of services lead to
the loopback.

What the image of PostgreSQL does with its variables is done here with Debian's PostgreSQL. The
bucket is moto's. Everything ends with the process, whose end takes its namespace along.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import yaml

from tests.services.patience import LONG_S, give_patience, wait_until
from tests.services.postgres_server import binaries
from tests.services.prefect_api import client_of, created, reached
from tests.services.s3_server import variables_for
from tests.support.repository import ROOT

COMPOSE = ROOT / "deployments" / "compose.yaml"
_VARIABLE = re.compile(r"\$\{(\w+)(?::[?-]([^}]*))?\}")
PROGRAM = "tests.services.composed"
NAMESPACES = (
    *("unshare", "--net", "--mount", "--ipc", "--pid"),
    *("--fork", "--kill-child", "--mount-proc"),
)
_HOME = Path("/precis")
_DATABASE = Path("/var/lib/postgresql")
_S3 = "127.0.0.1:5000"
ENV_FILE = {**variables_for(f"http://{_S3}"), "PRECIS_STORE": "s3://precis-composed/runs"}
"""A team's `.env`: runs go to a bucket."""
STEPS = 2
_DEPLOYMENT = "train/rehearsal"
_SMALL: dict[str, Any] = {
    "model": "composed",
    "steps": STEPS,
    "documents": {"source": "bundled", "train_size": 40, "val_size": 4},
    "rollouts": {"groups_per_step": 2, "rollouts_per_group": 4},
}


@dataclass(frozen=True)
class Service:
    """A service: what is started, with which environment, and what has to be healthy before.

    Attributes:
        volumes: the path of each.
        health: the command that sees that it is healthy.
    """

    name: str
    image: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    volumes: tuple[Path, ...]
    after: tuple[str, ...]
    health: tuple[str, ...]


def services(variables: Mapping[str, str]) -> list[Service]:
    """The services in the order in which they are started; the variables stand for `${…}`."""
    text = _VARIABLE.sub(
        lambda found: variables.get(found[1]) or found[2] or "", COMPOSE.read_text()
    )
    found = {name: _service(name, said) for name, said in yaml.safe_load(text)["services"].items()}
    order = TopologicalSorter({name: one.after for name, one in found.items()})
    return [found[name] for name in order.static_order()]


def _service(name: str, said: Mapping[str, Any]) -> Service:
    files = [COMPOSE.parent / one["path"] for one in said.get("env_file", ())]
    given = ENV_FILE if ROOT / ".env" in [path.resolve() for path in files] else {}
    waits_for = said.get("depends_on", {})
    assert all(one["condition"] == "service_healthy" for one in waits_for.values())
    kind, *check = said["healthcheck"]["test"]
    assert kind == "CMD"
    return Service(
        name=name,
        image=said["image"],
        command=tuple(said.get("command", ())),
        environment={**given, **said.get("environment", {})},
        volumes=tuple(Path(one.split(":")[1]) for one in said.get("volumes", ())),
        after=tuple(waits_for),
        health=tuple(check),
    )


def main(folder: str, password: str) -> None:
    """Start everything, make a run, and print what the store then lists."""
    give_patience(LONG_S)
    variables = {"POSTGRES_PASSWORD": "correcthorse", "PREFECT_SERVER_API_AUTH_STRING": password}
    found = services(variables)
    _make_machine(Path(folder) / "root", found)
    host, port = _S3.split(":")
    _start("s3", [sys.executable, "-m", "moto.server", "-H", host, "-p", port], dict(os.environ))
    for service in found:
        environment = _environment_of(service)
        process = _start(service.name, _command_of(service), environment)
        _wait_until_healthy(service, environment, process)
    rehearse(password)
    worker = next(one for one in found if one.name == "worker")
    listed = subprocess.check_output(
        ["precis", "runs", "list", "--json"], env=_environment_of(worker), stderr=sys.stderr
    )
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
        for path in service.volumes:
            _make_volume(path)


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
        dockerfile = (ROOT / "deployments" / "Dockerfile").read_text()
        (set_by_image,) = re.findall(r"^ENV (.*)", dockerfile, re.MULTILINE)
        for name, value in re.findall(r"(\S+)=(\S+)", set_by_image):
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
    assert data in service.volumes
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

    def is_healthy() -> bool:
        assert process.poll() is None, f"{service.name} ended with {process.returncode}"
        done = subprocess.run(
            service.health, env=environment, timeout=LONG_S, stdout=sys.stderr, stderr=sys.stderr
        )
        return done.returncode == 0

    wait_until(is_healthy, f"the health of {service.name}", pause_s=1.0)


def _run(*command: str | Path) -> None:
    subprocess.run(list(map(str, command)), check=True, stdout=sys.stderr)


def rehearse(password: str) -> None:
    """Have the worker train and benchmark; returns when it has.

    Args:
        password: the server's, `user:password`.
    """
    user, _, secret = password.partition(":")
    with client_of("http://127.0.0.1:4200/api", auth=(user, secret)) as api:
        # The worker deploys when it starts, and is well before.
        deployment = f"/deployments/name/{_DEPLOYMENT}"
        wait_until(lambda: api.get(deployment).is_success, _DEPLOYMENT, pause_s=0.5)
        run = created(api, _DEPLOYMENT, _SMALL)
        ended = reached(api, run, "COMPLETED", "FAILED", "CRASHED")
    assert ended["state_type"] == "COMPLETED", ended["state"]
    assert ended["name"] == f"train composed: step {STEPS} of {STEPS}"


if __name__ == "__main__":
    main(*sys.argv[1:])
