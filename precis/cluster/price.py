"""The price of a machine by the hour, and how a managed job's machine knows it."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass

VARIABLE = "PRECIS_PRICES"
"""In a managed job: the price at each cloud that its machine may be rented from, as JSON."""
_SKYPILOT_VARIABLE = "SKYPILOT_CLUSTER_INFO"
"""SkyPilot's variable that names the cloud of the machine."""


@dataclass(frozen=True)
class HourlyPrice:
    """A machine's price, by SkyPilot's catalogue.

    Attributes:
        on_demand_usd_per_hour: what the same machine costs where the cloud can't take it back.
    """

    usd_per_hour: float
    on_demand_usd_per_hour: float


def as_variable(prices: Mapping[str, HourlyPrice]) -> str:
    """Return the prices as the variable carries them."""
    return json.dumps({cloud: asdict(price) for cloud, price in prices.items()})


def price_here() -> HourlyPrice | None:
    """Return the price of this machine, where a managed job has rented it and the price is
    known."""
    prices = json.loads(os.environ.get(VARIABLE, "{}"))
    machine = json.loads(os.environ.get(_SKYPILOT_VARIABLE, "{}"))
    found = prices.get(machine.get("cloud", "").lower())
    return HourlyPrice(**found) if found else None
