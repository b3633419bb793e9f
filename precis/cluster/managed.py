"""A whole run as a task for a managed job of SkyPilot: `deployments/managed.sky.yaml`, filled in.

The training flow runs beside its trainer on the rented machine. Everything committed is in the
bucket, so the next machine can replace a lost one.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from precis.cleartext import is_loopback, models_asked
from precis.cluster.site import PRICES_VARIABLE, HourlyPrice, as_variable
from precis.cluster.task import CHECKOUT, fill_in, s3_variables, seconds_max
from precis.config import ManagedConfig
from precis.environment import Variables
from precis.environments.python import files_of
from precis.errors import ConfigError
from precis.settings.environment import SENT_TO, PythonSettings

TASK = CHECKOUT / "deployments" / "managed.sky.yaml"


@dataclass(frozen=True)
class ServerAccess:
    """The server that the run reports to.

    Attributes:
        url: its address from the rented machine.
        secrets: its passwords, by Prefect's variables.
    """

    url: str
    secrets: dict[str, str] = field(repr=False)


def managed_task(
    config: ManagedConfig, flow_run: str, server: ServerAccess, prices: dict[str, HourlyPrice]
) -> Any:
    """Return the `sky.Task` that executes a flow run of that server, and retries it. The prices are
    of the machine, by cloud. Raises ConfigError without a checkout to send."""
    envs, secrets = variables(config, server)
    envs |= {"PRECIS_FLOW_RUN": flow_run, PRICES_VARIABLE: as_variable(prices)}
    return fill_in(TASK, envs, secrets, config.cluster, agent_files(config))


def agent_files(config: ManagedConfig) -> dict[str, str]:
    """Map places on the machine to an agent's files here: its file, the modules that it imports
    from its folder, and its `files`. Raises ConfigError if one of them does not exist."""
    environment = config.environment
    if not isinstance(environment, PythonSettings):
        return {}
    file = Path(environment.file).expanduser().resolve()
    if not file.is_file():
        raise ConfigError(
            f"environment.file is {environment.file}, and there is no such file.",
            "Give `environment` the path of a Python file.",
        )
    sent = {}
    for found in files_of(file):
        # SkyPilot would send a link as a link.
        sent[f"{SENT_TO}/{found.relative_to(file.parent)}"] = str(found.resolve())
    return sent


def variables(config: ManagedConfig, server: ServerAccess) -> tuple[dict[str, str], dict[str, str]]:
    """Return the environment variables of a run on its machine: plain ones, and secrets, of which
    only the keys that the run uses."""
    store_keys, settings = s3_variables()
    lock = "requirements.lock"
    if config.environment.kind in ("textarena", "reasoning_gym"):  # packages of others
        lock = "requirements-environments.lock"
    elif config.environment.kind == "python" and config.environment.workers:
        lock = "requirements-ray.lock"
    envs = {
        **settings,
        **_observers(),
        "PREFECT_API_URL": server.url,
        "PRECIS_BACKEND": config.trainer.backend,
        "PRECIS_LOCK": lock,
        "PRECIS_SECONDS_MAX": seconds_max(config.cluster),
    }
    wanted = {"HF_TOKEN", "LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY", "OPENPIPE_API_KEY"}
    wanted |= {"WANDB_API_KEY", *(variable for _, variable, _ in models_asked(config))}
    keys = {name: key for name, key in Variables().keys().items() if name in wanted}
    return envs, {**store_keys, **keys, **server.secrets}


def _observers() -> dict[str, str]:
    """Return the destinations of metrics and completions that have a key, by their variables."""
    environment = Variables()
    keys = environment.keys()
    found = {}
    for name, address, key in (
        ("OPENPIPE_BASE_URL", environment.openpipe_base_url, "OPENPIPE_API_KEY"),
        ("LANGFUSE_HOST", environment.langfuse_host, "LANGFUSE_SECRET_KEY"),
        ("WANDB_PROJECT", environment.wandb_project, "WANDB_API_KEY"),
        ("WEAVE_PROJECT", environment.weave_project, "WANDB_API_KEY"),
        ("WF_TRACE_SERVER_URL", environment.weave_url, "WANDB_API_KEY"),
        ("WANDB_BASE_URL", os.environ.get("WANDB_BASE_URL"), "WANDB_API_KEY"),
    ):
        if address and keys.get(key):
            found[name] = address
    return found


def check_reach(config: ManagedConfig, server_url: str) -> None:
    """Check that no setting names something that exists only on this machine. Raises ConfigError if
    a setting does; the message names it."""
    for setting, value in _files(config):
        raise ConfigError(
            f"{setting} is {value}, which is on this machine, and the job runs on another one.",
            "Put it where both reach it: documents on the Hub, checkpoints in a bucket. A program "
            "can't be: train/h100 rents a machine for the trainer alone.",
        )
    if not server_url:
        raise ConfigError(
            "A managed job reports to a Prefect server, and none is set.",
            "Set PREFECT_API_URL to one that the rented machine reaches.",
        )
    addresses = _observers()
    for name, _, asked in models_asked(config):
        addresses[f"{name}.base_url"] = asked.base_url
    if not config.prefect_api_url:
        addresses["PREFECT_API_URL"] = server_url
    for setting, address in addresses.items():
        if is_loopback(address):
            raise ConfigError(
                f"{setting} is {address}, which on the rented machine is that machine itself.",
                "Give an address that it can be reached at from there.",
            )


def _files(config: ManagedConfig) -> Iterator[tuple[str, str]]:
    if config.environment.kind == "command":
        yield "environment.command", config.environment.command[0]
    if config.environment.kind == "verifiers":
        yield "environment.python", config.environment.python
    if config.environment.kind == "python" and config.environment.workers:
        workers = config.environment.workers
        if workers.address == "auto":
            yield "environment.workers.address", workers.address
    source = config.documents.source
    if source != "bundled" and Path(source).expanduser().exists():
        yield "documents.source", source
    trainer = config.trainer.model_dump()
    for setting in ("base_model", "tokenizer"):
        name = trainer.get(setting)
        if name and Path(name).expanduser().exists():
            yield f"trainer.{setting}", name
    origin = config.from_checkpoint.store if config.from_checkpoint else ""
    if origin and not origin.startswith("s3://"):
        yield "from_checkpoint.store", origin
    if config.warm_start and config.warm_start.file:
        yield "warm_start.file", config.warm_start.file
