"""A whole run as a task for SkyPilot's managed jobs: `deployments/managed.sky.yaml`, filled in.

The training flow runs beside its trainer on the rented machine. What it has committed is in the
bucket, so a machine that is lost takes nothing along that the next one would miss.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from precis.cleartext import is_loopback, models_asked
from precis.cluster.keys import cluster_name
from precis.cluster.price import VARIABLE, HourlyPrice, as_variable
from precis.cluster.task import CHECKOUT, fill_in, s3_variables, seconds_max
from precis.config import ManagedConfig
from precis.environment import Variables
from precis.environments.python import files_of
from precis.errors import ConfigError
from precis.settings.environment import SENT_TO, PythonSettings
from precis.store import open_store

TASK = CHECKOUT / "deployments" / "managed.sky.yaml"
_OBSERVERS = ("WANDB_API_KEY", "OPENPIPE_API_KEY", "LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY")


@dataclass(frozen=True)
class ServerAccess:
    """The server that the run reports to.

    Attributes:
        url: as the rented machine reaches it.
        secrets: the passwords that it asks for, by Prefect's variables.
    """

    url: str
    secrets: dict[str, str] = field(repr=False)


def job_name(config: ManagedConfig) -> str:
    """Return the name of a run's job: the same however often it is launched."""
    return cluster_name(config.model, open_store(config.store).url)


def managed_task(
    config: ManagedConfig, flow_run: str, server: ServerAccess, prices: dict[str, HourlyPrice]
) -> Any:
    """Return the `sky.Task` that executes a flow run of that server, as often as it takes.

    The prices are of the machine, by cloud. ConfigError without a checkout to send.
    """
    envs, secrets = variables(config, server)
    envs |= {"PRECIS_FLOW_RUN": flow_run, VARIABLE: as_variable(prices)}
    return fill_in(TASK, envs, secrets, config.cluster, agent_files(config))


def agent_files(config: ManagedConfig) -> dict[str, str]:
    """Return what of an agent is sent to the machine, here by its place there: its file, the
    modules that it imports from its folder, and its `files`. A ConfigError says that one of them is
    not there."""
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
    for found in files_of(file).values():
        # SkyPilot sends a link as a link.
        sent[f"{SENT_TO}/{found.relative_to(file.parent)}"] = str(found.resolve())
    return sent


def variables(config: ManagedConfig, server: ServerAccess) -> tuple[dict[str, str], dict[str, str]]:
    """Return the variables of any run with these settings on its machine: in the open, and as
    secrets."""
    store_keys, settings = s3_variables()
    # Where metrics and completions go.
    environment = Variables()
    addresses = {
        "OPENPIPE_BASE_URL": environment.openpipe_base_url,
        "LANGFUSE_HOST": environment.langfuse_host,
        "WEAVE_PROJECT": environment.weave_project,
        "WF_TRACE_SERVER_URL": environment.weave_url,
        "WANDB_BASE_URL": os.environ.get("WANDB_BASE_URL"),
    }
    envs = {
        **settings,
        **{name: address for name, address in addresses.items() if address},
        "PREFECT_API_URL": server.url,
        "PRECIS_BACKEND": config.trainer.backend,
        "PRECIS_LOCK": lock_of(config),
        "PRECIS_SECONDS_MAX": seconds_max(config.cluster),
    }
    return envs, {**store_keys, **keys_of(config), **server.secrets}


def lock_of(config: ManagedConfig) -> str:
    """Return the lock file of what the flow needs: games and puzzles are packages of others."""
    if config.environment.kind in ("textarena", "reasoning_gym"):
        return "requirements-environments.lock"
    return "requirements.lock"


def keys_of(config: ManagedConfig) -> dict[str, str]:
    """Return the keys that the run asks others with, the store's left out, by their variables."""
    wanted = {"HF_TOKEN", *_OBSERVERS}
    wanted.update(variable for _, variable, _ in models_asked(config))
    return {name: key for name, key in Variables().keys().items() if name in wanted}


def check_reach(config: ManagedConfig, server_url: str) -> None:
    """See that no setting means something that is on this machine alone.

    Raises:
        ConfigError: one does; the message names it.
    """
    for setting, value in _files(config):
        raise ConfigError(
            f"{setting} is {value}, which is on this machine, and the job runs on another one.",
            "Put it where both reach it: documents on the Hub, checkpoints in a bucket. A program "
            "can't be: train/h100 rents a machine for the trainer alone.",
        )
    if not server_url:
        raise ConfigError(
            "A managed job reports to a Prefect server, and none is named.",
            "Set PREFECT_API_URL to one that the rented machine reaches.",
        )
    addresses = {f"{name}.base_url": asked.base_url for name, _, asked in models_asked(config)}
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
