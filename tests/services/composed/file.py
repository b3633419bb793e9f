"""What compose.yaml says, as Docker's Compose understands it."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import yaml

from tests.support.repository import ROOT

COMPOSE = ROOT / "deployments" / "compose.yaml"
_VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?:(?P<kind>:[?-])(?P<rest>[^}]*))?\}")
_UNITS = {"s": 1, "m": 60, "h": 3600}


@dataclass(frozen=True)
class HealthCheck:
    """How to see that a service is healthy, and how long it may take to become so."""

    command: tuple[str, ...]
    timeout_s: float
    patience_s: float


@dataclass(frozen=True)
class Service:
    """A service: what is started, with which environment, and what has to be healthy before."""

    name: str
    image: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    volumes: Mapping[str, str]
    """The path of each volume by its name."""
    after: tuple[str, ...]
    health: HealthCheck


def services(variables: Mapping[str, str], env_file: Mapping[str, str]) -> list[Service]:
    """The services in the order in which they are started.

    Args:
        variables: what stands for `${…}`.
        env_file: the content of the file that services are given, `.env`.
    """
    file = yaml.safe_load(COMPOSE.read_text())["services"]
    found = {}
    for name, said in file.items():
        found[name] = _service(name, _filled(said, variables), env_file)
    order = TopologicalSorter({name: one.after for name, one in found.items()})
    return [found[name] for name in order.static_order()]


def _service(name: str, said: Mapping[str, Any], env_file: Mapping[str, str]) -> Service:
    given = env_file if _reads_env_file(said) else {}
    after = []
    for other, waits in said.get("depends_on", {}).items():
        assert waits["condition"] == "service_healthy"
        after.append(other)
    return Service(
        name=name,
        image=said["image"],
        command=tuple(said.get("command", ())),
        environment={**given, **said.get("environment", {})},
        volumes=dict(one.split(":")[:2] for one in said.get("volumes", ())),
        after=tuple(after),
        health=_health(said["healthcheck"]),
    )


def _reads_env_file(said: Mapping[str, Any]) -> bool:
    paths = [COMPOSE.parent / one["path"] for one in said.get("env_file", ())]
    return ROOT / ".env" in [path.resolve() for path in paths]


def _health(said: Mapping[str, Any]) -> HealthCheck:
    """Whose words, and whose defaults, are those of Compose."""
    kind, *command = said["test"]
    assert kind == "CMD"
    tries = int(said.get("retries", 3))
    patience_s = _seconds(said.get("start_period", "0s")) + tries * _seconds(said["interval"])
    return HealthCheck(tuple(command), _seconds(said["timeout"]), patience_s)


def _seconds(duration: str) -> float:
    return float(duration[:-1]) * _UNITS[duration[-1]]


def _filled(value: Any, variables: Mapping[str, str]) -> Any:
    """The same with the variables in it replaced."""
    if isinstance(value, dict):
        return {key: _filled(each, variables) for key, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, variables) for each in value]
    if isinstance(value, str):
        return _VARIABLE.sub(lambda found: _value_of(found, variables), value)
    return value


def _value_of(found: re.Match[str], variables: Mapping[str, str]) -> str:
    known = variables.get(found["name"], "")
    if known or found["kind"] is None:
        return known
    if found["kind"] == ":?":
        raise ValueError(found["rest"])
    return found["rest"]


def image_environment(dockerfile: Path) -> Iterator[tuple[str, str]]:
    """The variables that the image sets."""
    for line in dockerfile.read_text().splitlines():
        if line.startswith("ENV "):
            for pair in line.removeprefix("ENV ").split():
                name, _, value = pair.partition("=")
                yield name, value
