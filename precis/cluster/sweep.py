"""Removal of our machines that no live run uses any more.

Each machine's task has its model and store among its variables, so that the run's lease can be
looked up from anywhere.
"""

import asyncio
import time
from dataclasses import dataclass
from typing import Literal

from precis.cluster import api
from precis.cluster.api import Cluster
from precis.cluster.keys import PREFIX, cluster_name, forget_keys
from precis.cluster.task import s3_endpoint
from precis.errors import ConfigError, PrecisError
from precis.runs.lease import live_holder
from precis.store import open_store

Done = Literal["taken down", "kept", "failed"]


@dataclass(frozen=True)
class Swept:
    """The action taken on a machine, and the reason."""

    cluster: str
    infra: str
    usd_per_hour: float
    done: Done
    why: str


async def sweep(spare_hours: float) -> list[Swept]:
    """Take down all machines of ours that no live run holds; those launched less than `spare_hours`
    ago are spared."""
    swept = []
    for cluster in await api.list_clusters():
        if cluster.name.startswith(PREFIX):
            swept.append(await _take_down_if_idle(cluster, spare_hours))
    return swept


async def down_cluster(model: str, store: str, *, force: bool = False) -> str:
    """Take down the machine of a model, if it still exists; return a sentence on that. Raises
    ConfigError if a live run uses it, unless `force` is set."""
    name = cluster_name(model, store)
    holder = None if force else await asyncio.to_thread(live_holder, open_store(store), model)
    if holder is not None:
        raise ConfigError(
            f"The machine {name} is in use by {holder}: cancel that run, or use force."
        )
    existed = await api.down(name)
    forget_keys(name)
    if existed:
        return f"The machine {name} is gone."
    return (
        f"There is no machine {name}, that of the model {model!r} in {open_store(store).url}: see "
        "`sky status`, or `sky jobs queue` for managed jobs."
    )


async def _take_down_if_idle(cluster: Cluster, spare_hours: float) -> Swept:
    def outcome(done: Done, why: str) -> Swept:
        return Swept(cluster.name, cluster.infra, cluster.price.usd_per_hour, done, why)

    model = cluster.envs.get("PRECIS_MODEL")
    store = cluster.envs.get("PRECIS_STORE")
    if model is None or store is None:
        return outcome("kept", "was not launched by this version of Précis")
    hours = (time.time() - cluster.launched_at) / 3600
    if hours < spare_hours:
        return outcome("kept", f"was launched {hours:.1f} hours ago")
    try:
        if cluster.envs.get("AWS_ENDPOINT_URL") != s3_endpoint():
            return outcome("kept", "keeps its runs at another server (AWS_ENDPOINT_URL)")
        holder = await asyncio.to_thread(live_holder, open_store(store), model)
        if holder is not None:
            return outcome("kept", f"is in use by {holder}")
        await api.down(cluster.name)
    except PrecisError as error:  # none may keep the other machines
        return outcome("failed", str(error))
    forget_keys(cluster.name)
    return outcome("taken down", "no live run holds its model")
