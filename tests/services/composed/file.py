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


@dataclass(frozen=True)
class Service:
    """A service: what is started, with which environment, and what has to be healthy before.

    Attributes:
        volumes: the path of each, by its name.
        health: the command that sees that it is healthy.
    """

    name: str
    image: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    volumes: Mapping[str, str]
    after: tuple[str, ...]
    health: tuple[str, ...]


def services(variables: Mapping[str, str], env_file: Mapping[str, str]) -> list[Service]:
    """The services in the order in which they are started.

    Args:
        variables: what stands for `${…}`.
        env_file: the content of the file that services are given, `.env`.
    """
    text = _VARIABLE.sub(lambda found: _value_of(found, variables), COMPOSE.read_text())
    found = {}
    for name, said in yaml.safe_load(text)["services"].items():
        found[name] = _service(name, said, env_file)
    order = TopologicalSorter({name: one.after for name, one in found.items()})
    return [found[name] for name in order.static_order()]


def _value_of(found: re.Match[str], variables: Mapping[str, str]) -> str:
    known = variables.get(found["name"], "")
    if known or found["kind"] is None:
        return known
    if found["kind"] == ":?":
        raise ValueError(found["rest"])
    return found["rest"]


def _service(name: str, said: Mapping[str, Any], env_file: Mapping[str, str]) -> Service:
    files = [COMPOSE.parent / one["path"] for one in said.get("env_file", ())]
    given = env_file if ROOT / ".env" in [path.resolve() for path in files] else {}
    waits_for = said.get("depends_on", {})
    assert all(one["condition"] == "service_healthy" for one in waits_for.values())
    kind, *check = said["healthcheck"]["test"]
    assert kind == "CMD"
    return Service(
        name=name,
        image=said["image"],
        command=tuple(said.get("command", ())),
        environment={**given, **said.get("environment", {})},
        volumes=dict(one.split(":")[:2] for one in said.get("volumes", ())),
        after=tuple(waits_for),
        health=tuple(check),
    )


def image_environment(dockerfile: Path) -> Iterator[tuple[str, str]]:
    """The variables that the image sets."""
    for line in dockerfile.read_text().splitlines():
        if line.startswith("ENV "):
            for pair in line.removeprefix("ENV ").split():
                name, _, value = pair.partition("=")
                yield name, value
