"""The deployments of prefect.yaml, and settings given as `-p name=value`."""

import json
from collections.abc import Sequence
from typing import Any

import yaml

from cli.up import ROOT
from precis.config import BenchmarkConfig, ManagedConfig, RunConfig, TrainConfig
from precis.errors import ConfigError

_MODELS: dict[str, type[RunConfig]] = {"train": TrainConfig, "benchmark": BenchmarkConfig}
"""The settings classes of flows, by flow name."""
_LAUNCHER = "flows/managed.py:"


def read_deployment(deployment: str) -> tuple[type[RunConfig], dict[str, Any]]:
    """Return the class of a deployment's settings, and its parameters. Raises ConfigError if
    prefect.yaml has no such deployment of training or a benchmark."""
    entries = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]
    named = {}
    for entry in entries:
        flow = entry["entrypoint"].rpartition(":")[2]
        if flow in _MODELS:
            # As `prefect deployment run` takes it.
            named[f"{flow}/{entry['name']}"] = entry
    if deployment not in named:
        raise ConfigError(
            f"prefect.yaml has no deployment {deployment!r} of training or a benchmark; it has "
            f"{', '.join(named)}."
        )
    entry = named[deployment]
    launches = entry["entrypoint"].startswith(_LAUNCHER)
    flow = deployment.partition("/")[0]
    return ManagedConfig if launches else _MODELS[flow], entry.get("parameters") or {}


def read_params(params: Sequence[str]) -> dict[str, Any]:
    """Return settings by name: each value is JSON, or else a string, as in Prefect. Raises
    ConfigError for one that is not of the form `name=value`."""
    settings = {}
    for param in params:
        name, separator, value = param.partition("=")
        if not separator:
            raise ConfigError(f"-p {param!r} is not of the form name=value.")
        try:
            settings[name] = json.loads(value)
        except ValueError as error:
            if value[:1] in ("{", "[", '"'):
                raise ConfigError(f"-p {name}: {value} is not JSON ({error}).") from error
            settings[name] = value
        group, *parts = name.split(".")
        if parts:
            inside = settings[name]
            for part in reversed(parts):
                inside = {part: inside}
            raise ConfigError(
                f"-p {name}: a setting is given within its group.",
                f"Write -p '{group}={json.dumps(inside, ensure_ascii=False)}'.",
            )
    return settings
