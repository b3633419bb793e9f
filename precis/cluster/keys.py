"""The name of a cluster, and the secrets for reaching its trainer."""

import hashlib
import json
import os
import re
import secrets
from dataclasses import asdict, dataclass, field
from pathlib import Path

from precis.environment import private_home
from precis.store import open_store

PREFIX = "precis-"


@dataclass(frozen=True)
class Keys:
    """The keys and port of a cluster's trainer, made for each trainer that is started.

    Attributes:
        port: where it listens, on the cluster's loopback.
        started_from: the digest of what it was started from (`precis.cluster.task.started_from`).
    """

    token: str = field(repr=False)
    port: int
    started_from: str = ""

    @classmethod
    def new(cls, started_from: str = "") -> "Keys":
        # Below the kernel's ephemeral ports; other users of the machine may hold a few.
        return cls(secrets.token_urlsafe(32), 20_000 + secrets.randbelow(10_000), started_from)


def cluster_name(model: str, store: str) -> str:
    """Return the name of a model's cluster or managed job in a store, the same for each of its
    runs. SkyPilot and the clouds allow lower-case letters, digits and dashes."""
    digest = hashlib.sha256(f"{open_store(store).url} {model}".encode()).hexdigest()[:8]
    readable = re.sub(r"[^a-z0-9]+", "-", model.lower()).strip("-")[:20]
    return f"{PREFIX}{readable}-{digest}"


def read_keys(cluster: str) -> Keys | None:
    """Return the keys of the cluster's trainer, if a process with our home started it."""
    try:
        return Keys(**json.loads(_path(cluster).read_text()))
    except (FileNotFoundError, ValueError, TypeError):  # damaged, as by a full disk
        return None


def write_keys(cluster: str, keys: Keys) -> None:
    """Keep the keys for later processes, readable by this user only."""
    path = _path(cluster)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(asdict(keys), file)
    temporary.replace(path)


def forget_keys(cluster: str) -> None:
    _path(cluster).unlink(missing_ok=True)


def _path(cluster: str) -> Path:
    return private_home() / "clusters" / f"{cluster}.json"
