"""The hourly price of a machine, and its variable on a managed job's machine."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass

VARIABLE = "PRECIS_PRICES"
"""The variable with the price at each cloud that a managed job may rent from, as JSON."""
_SKYPILOT_VARIABLE = "SKYPILOT_CLUSTER_INFO"
"""SkyPilot's variable that names the cloud of the machine."""


@dataclass(frozen=True)
class HourlyPrice:
    """A machine's price, by SkyPilot's catalogue.

    Attributes:
        on_demand_usd_per_hour: the price of the same machine when the cloud can't reclaim it.
    """

    usd_per_hour: float
    on_demand_usd_per_hour: float


def as_variable(prices: Mapping[str, HourlyPrice]) -> str:
    """Return the prices as the variable's value."""
    return json.dumps({cloud: asdict(price) for cloud, price in prices.items()})


def price_here() -> HourlyPrice | None:
    """Return the price of this machine, if a managed job has rented it and the price is known."""
    prices = json.loads(os.environ.get(VARIABLE, "{}"))
    machine = json.loads(os.environ.get(_SKYPILOT_VARIABLE, "{}"))
    found = prices.get(machine.get("cloud", "").lower())
    return HourlyPrice(**found) if found else None
