"""The trainer as a task for SkyPilot: `deployments/trainer.sky.yaml`, filled in for a run."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

import yaml

from precis.cluster.keys import Keys
from precis.environment import S3Environment
from precis.errors import ConfigError
from precis.settings.cluster import ClusterConfig
from precis.settings.trainer import BackendName

CHECKOUT = Path(__file__).parents[2]
TASK = CHECKOUT / "deployments" / "trainer.sky.yaml"
_LOCKS: dict[BackendName, str] = {
    "local": "requirements-gpu.lock",
    "extractive": "requirements.lock",
    "tool_calls": "requirements.lock",
}
_GRACE_S = 1800
"""The time after the run's own limit of hours at which the machine ends the trainer by itself."""


@dataclass(frozen=True)
class Work:
    """The work of a rented machine.

    Attributes:
        backend: `local` is ART's LocalBackend.
        store: URL of the store, which the machine must be able to reach.
        seed: of the untrained extractive policy.
    """

    model: str
    store: str
    backend: BackendName
    seed: int


def trainer_task(work: Work, config: ClusterConfig, keys: Keys) -> Any:
    """Return the `sky.Task` that serves the trainer; ConfigError without a checkout to send."""
    secrets, settings = s3_variables()
    envs = {
        **settings,
        "PRECIS_MODEL": work.model,
        "PRECIS_STORE": work.store,
        "PRECIS_BACKEND": work.backend,
        "PRECIS_SEED": str(work.seed),
        "PRECIS_PORT": str(keys.port),
        "PRECIS_CLIENT_LOST_S": f"{config.client_lost_s:g}",
        "PRECIS_SECONDS_MAX": seconds_max(config),
        "PRECIS_LOCK": _LOCKS[work.backend],
    }
    return fill_in(TASK, envs, {**secrets, "PRECIS_TOKEN": keys.token}, config)


def fill_in(
    path: Path,
    envs: dict[str, str],
    secrets: dict[str, str],
    config: ClusterConfig,
    files: Mapping[str, str] = MappingProxyType({}),
) -> Any:
    """Return the `sky.Task` that a file describes, with this checkout, on the machines to ask for.

    `files` are sent there besides: here, by their place there. ConfigError without a checkout.
    """
    import sky

    if not (CHECKOUT / "pyproject.toml").exists():
        raise ConfigError(
            "A rented machine gets Précis from this machine's checkout, and there is none at "
            f"{CHECKOUT}.",
            "Clone the repository and install it from there with `make install-sky`.",
        )
    description = yaml.safe_load(path.read_text())
    description["workdir"] = str(CHECKOUT)
    description["envs"] = envs
    description["secrets"] = secrets
    if files:
        description["file_mounts"] = dict(files)
    common = description.pop("resources", {})
    # A copy for each: SkyPilot writes into what it is given.
    machines = [{**deepcopy(common), **one} for one in candidates(config)]
    task = sky.Task.from_yaml_config(description)
    return task.set_resources([sky.Resources(**one) for one in machines])


def candidates(config: ClusterConfig) -> list[dict[str, Any]]:
    """Return the machines to ask for, in order, as `sky.Resources` takes them."""
    kinds = {"never": (False,), "first": (True, False), "only": (True,)}[config.spot]
    machines = []
    for spot in kinds:
        for infra in config.infra:
            machine = {
                "infra": infra,
                "accelerators": config.gpu,
                "use_spot": spot,
                "disk_size": config.disk_gb,
            }
            machines.append(machine)
    return machines


def s3_variables() -> tuple[dict[str, str], dict[str, str]]:
    """Return the cluster's variables for reaching the bucket as this machine does: secrets, and the
    rest."""
    import boto3

    environment = S3Environment()
    session = boto3.Session()
    secrets = {}
    for name, value in environment:
        if hasattr(value, "get_secret_value"):
            secrets[name.upper()] = value.get_secret_value()
    if not secrets:
        # Those that AWS's own tools would take here: of a profile, or the machine's role.
        credentials = session.get_credentials()
        if credentials is not None:
            found = credentials.get_frozen_credentials()
            named = {
                "AWS_ACCESS_KEY_ID": found.access_key,
                "AWS_SECRET_ACCESS_KEY": found.secret_key,
                "AWS_SESSION_TOKEN": found.token,
            }
            secrets = {name: value for name, value in named.items() if value}
    plain = {
        "AWS_REGION": environment.aws_region or session.region_name,
        "AWS_ENDPOINT_URL": environment.aws_endpoint_url or _endpoint_of_profile(session),
        "PRECIS_S3_SSE": environment.sse,
        "PRECIS_S3_CHECKSUM": environment.checksum,
        "PRECIS_S3_ADDRESSING": environment.addressing,
        "PRECIS_S3_TRIES_MAX": str(environment.tries_max),
        "PRECIS_S3_TIMEOUT_S": str(environment.timeout_s),
    }
    return secrets, {key: value for key, value in plain.items() if value}


def _endpoint_of_profile(session: Any) -> str | None:
    """Return the server that a profile of AWS's own tools names for S3; None where that is AWS."""
    client = session.client("s3", aws_access_key_id="none", aws_secret_access_key="none")
    host = urlsplit(client.meta.endpoint_url).hostname or ""
    is_aws = host.endswith((".amazonaws.com", ".amazonaws.com.cn"))
    return None if is_aws else str(client.meta.endpoint_url)


def caveat_of_keys() -> str | None:
    """Return a warning where the bucket's keys are temporary; None where they last."""
    secrets, _ = s3_variables()
    if "AWS_SESSION_TOKEN" not in secrets:
        return None
    return (
        "The keys of the bucket are temporary (AWS_SESSION_TOKEN), and the rented machine gets a "
        "copy that nobody renews: when they end, it can't commit, and the run stops. For a longer "
        "run set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to keys that last."
    )


def seconds_max(config: ClusterConfig) -> str:
    """After so many seconds the machine ends its task by itself."""
    return f"{config.hours_max * 3600 + _GRACE_S:.0f}"
