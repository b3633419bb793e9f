"""SkyPilot's facts before a machine is rented: keys, offers, prices."""

import math
import re
from itertools import chain

from precis.cluster import api
from precis.cluster.site import HourlyPrice
from precis.cluster.task import candidates
from precis.errors import ConfigError, NoCapacity
from precis.settings.cluster import ClusterConfig


async def infra_enabled(config: ClusterConfig) -> str:
    """Check that SkyPilot is installed and has keys for the places to rent at. Raises ConfigError
    if it is not, or has none for any of them."""
    clouds = clouds_of(config)
    answer = await api.call(lambda: api.sdk().check(tuple(clouds), False))
    enabled = set(map(str.lower, chain.from_iterable(answer.values())))  # of all workspaces
    usable = [infra for infra in config.infra if _cloud_of(infra) in enabled]
    left_out = [infra for infra in config.infra if infra not in usable]
    if not usable:
        raise ConfigError(
            f"SkyPilot has no working key for {', '.join(clouds)}: run "
            f"`sky check {clouds[0]}`, which says what is missing."
        )
    return ", ".join(usable) + (f"; no key for {', '.join(left_out)}" if left_out else "")


async def gpu_offered(config: ClusterConfig) -> str:
    """List the clouds that offer the GPU, with their prices. Raises NoCapacity if there are
    none."""
    found = await prices(config)
    if not found:
        raise NoCapacity(
            f"None of {', '.join(config.infra)} offers {config.gpu}: see `sky show-gpus`, and "
            "change cluster.gpu or cluster.infra."
        )
    offers = []
    for cloud, one in found.items():
        known = f"from ${one.usd_per_hour:.2f} an hour" if one.usd_per_hour else "at no known price"
        offers.append(f"{cloud} {known}")
    return ", ".join(offers)


async def check_placement(config: ClusterConfig) -> None:
    """Raise NoCapacity if SkyPilot could ask no place for the machine, such as for a spot one where
    there are none: it takes a managed job of such a machine, which then fails unseen."""
    import sky

    with sky.Dag() as dag:
        sky.Task().set_resources([sky.Resources(**one) for one in candidates(config)])
    await api.call(lambda: api.sdk().optimize(dag))


async def budget_lasts(config: ClusterConfig, budget_usd: float | None) -> str:
    """Return how long the budget pays for the machine. Raises ConfigError if for less than an
    hour."""
    found = await prices(config)
    dearest = max((one.usd_per_hour for one in found.values()), default=0.0)
    if not dearest:
        return (
            "SkyPilot knows no price of the machine, so that no budget counts it: it is taken down "
            f"after {config.hours_max:g} hours"
        )
    if budget_usd is None:
        most = dearest * config.hours_max
        return f"no budget_usd; {config.hours_max:g} hours cost up to ${most:.2f}"
    if dearest > budget_usd:
        raise ConfigError(
            f"budget_usd is ${budget_usd:.2f}, and an hour of {config.gpu} costs ${dearest:.2f}: "
            "raise it, or choose another cluster.gpu."
        )
    hours = min(budget_usd / dearest, config.hours_max)
    return f"${budget_usd:.2f} pays for {hours:.1f} hours, judging aside"


async def prices(config: ClusterConfig) -> dict[str, HourlyPrice]:
    """Return the lowest price of a machine at each cloud that offers it, by SkyPilot's catalogue;
    with `spot: first` that on demand, which is the most that it may cost."""
    clouds = clouds_of(config)
    answer = await api.call(
        lambda: api.sdk().list_accelerators(
            name_filter=f"^{re.escape(config.gpu_name)}$",
            clouds=clouds,
            require_price=False,
            case_sensitive=False,
        )
    )
    found = {}
    for cloud in clouds:
        rows = []
        for row in chain.from_iterable(answer.values()):
            if row.cloud.lower() == cloud and row.accelerator_count == config.gpus:
                rows.append(row)
        if rows:
            # NaN where it is not sold so, or the catalogue has no price.
            reclaimable = [one.spot_price for one in rows if not math.isnan(one.spot_price)]
            on_demand = [one.price for one in rows if not math.isnan(one.price)]
            lowest = min(on_demand or reclaimable, default=0.0)
            charged = min(reclaimable, default=lowest) if config.spot == "only" else lowest
            found[cloud] = HourlyPrice(charged, lowest)
    return found


def clouds_of(config: ClusterConfig) -> list[str]:
    """Return the clouds of the places to rent at, in order."""
    return list(dict.fromkeys(map(_cloud_of, config.infra)))


def _cloud_of(infra: str) -> str:
    cloud = infra.partition("/")[0].lower()
    return {"k8s": "kubernetes"}.get(cloud, cloud)
