"""The trainer as a task of SkyPilot: `deployments/trainer.sky.yaml`, filled in for a run."""

import hashlib
import json
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from precis.cleartext import is_loopback
from precis.cluster.keys import Keys
from precis.config import RunConfig
from precis.environment import S3Environment
from precis.errors import ConfigError
from precis.settings.cluster import ClusterConfig
from precis.store import open_store

CHECKOUT = Path(__file__).parents[2]
TASK = CHECKOUT / "deployments" / "trainer.sky.yaml"
_GRACE_S = 1800
"""The time after the run's limit of hours at which the machine ends the trainer."""


def trainer_task(config: RunConfig, keys: Keys) -> Any:
    """Return the `sky.Task` that serves the trainer. Raises ConfigError without a checkout to
    send."""
    secrets, settings = s3_variables()
    envs = {**settings, **_variables(config), "PRECIS_PORT": str(keys.port)}
    return fill_in(TASK, envs, {**secrets, "PRECIS_TOKEN": keys.token}, config.cluster, {})


def started_from(config: RunConfig) -> str:
    """Return the digest of what a trainer is started from: its GPU, its variables, the keys of the
    bucket, and the code and packages of this checkout. One that was started from anything else
    can't be used in its place."""
    variables = _variables(config)
    given = [config.cluster.gpu, variables, *s3_variables()]
    digest = hashlib.sha256(json.dumps(given).encode())
    for pattern in ("precis/**/*.py", TASK.relative_to(CHECKOUT), variables["PRECIS_LOCK"]):
        for file in sorted(CHECKOUT.glob(str(pattern))):
            if file.is_file():  # an editor's lock is a link to nothing
                digest.update(file.read_bytes())
    return digest.hexdigest()


def _variables(config: RunConfig) -> dict[str, str]:
    backend = config.trainer.backend
    return {
        "PRECIS_MODEL": config.model,
        "PRECIS_STORE": open_store(config.store).url,
        "PRECIS_BACKEND": backend,
        "PRECIS_SEED": str(config.seed),
        "PRECIS_CLIENT_LOST_S": f"{config.cluster.client_lost_s:g}",
        "PRECIS_SECONDS_MAX": seconds_max(config.cluster),
        "PRECIS_LOCK": "requirements-gpu.lock" if backend == "local" else "requirements.lock",
    }


def fill_in(
    path: Path,
    envs: dict[str, str],
    secrets: dict[str, str],
    config: ClusterConfig,
    files: Mapping[str, str],
) -> Any:
    """Return the `sky.Task` of a file, with this checkout, on one of the candidate machines.

    `files` maps further files' places there to those here. Raises ConfigError without a checkout.
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
    machines = []
    for candidate in candidates(config):
        # A copy for each: SkyPilot modifies its argument.
        machines.append(sky.Resources(**{**deepcopy(common), **candidate}))
    return sky.Task.from_yaml_config(description).set_resources(machines)


def candidates(config: ClusterConfig) -> list[dict[str, Any]]:
    """Return the candidate machines, in order, as arguments of `sky.Resources`."""
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


def s3_endpoint() -> str | None:
    """Return the address of the bucket's server, which a profile of AWS's tools may set; None for
    AWS itself. Raises ConfigError if those settings can't be used."""
    from precis.store.s3_client import client_for  # boto3 takes a third of a second

    settings = S3Environment()
    if settings.aws_endpoint_url:
        return settings.aws_endpoint_url
    address: str = client_for(settings).meta.endpoint_url
    is_aws = (urlsplit(address).hostname or "").endswith((".amazonaws.com", ".amazonaws.com.cn"))
    return None if is_aws else address


def s3_variables() -> tuple[dict[str, str], dict[str, str]]:
    """Return the cluster's variables for access to the bucket as from here: secrets, and the
    rest."""
    import boto3

    environment = S3Environment()
    session = boto3.Session()
    secrets = environment.keys()
    if not secrets:
        # The credentials that AWS's own tools would use: of a profile, or the machine's role.
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
        "AWS_ENDPOINT_URL": s3_endpoint(),
        "PRECIS_S3_SSE": environment.sse,
        "PRECIS_S3_CHECKSUM": environment.checksum,
        "PRECIS_S3_ADDRESSING": environment.addressing,
        "PRECIS_S3_TRIES_MAX": str(environment.tries_max),
        "PRECIS_S3_TIMEOUT_S": str(environment.timeout_s),
    }
    return secrets, {key: value for key, value in plain.items() if value}


def caveats_of_bucket() -> list[str]:
    """Return warnings of what may keep a rented machine from the bucket."""
    secrets, plain = s3_variables()
    caveats = []
    if "AWS_SESSION_TOKEN" in secrets:
        caveats.append(
            "The keys of the bucket are temporary (AWS_SESSION_TOKEN), and the rented machine gets "
            "a copy that nobody renews: when they end, it can't commit, and the run stops. For a "
            "longer run set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to keys that last."
        )
    endpoint = plain.get("AWS_ENDPOINT_URL", "")
    if is_loopback(endpoint):
        caveats.append(
            f"AWS_ENDPOINT_URL is {endpoint}, which on the rented machine is that machine itself: "
            "unless the bucket is there, the run stops at its first commit. Give an address that "
            "both machines reach."
        )
    return caveats


def seconds_max(config: ClusterConfig) -> str:
    """Return the seconds after which the machine ends its task."""
    return f"{config.hours_max * 3600 + _GRACE_S:.0f}"
