"""The address of a trainer, and the price of the machine that it is on."""

import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

PRICES_VARIABLE = "PRECIS_PRICES"
"""The variable with the price at each cloud that a managed job may rent from, as JSON."""
_SKYPILOT_VARIABLE = "SKYPILOT_CLUSTER_INFO"
"""SkyPilot's variable that names the cloud of the machine."""


@dataclass(frozen=True)
class TrainerAddress:
    """The address of a trainer, and its bearer token."""

    url: str
    token: str = field(repr=False)


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


def rented_here() -> tuple[HourlyPrice, float] | None:
    """Return the price of this machine, and the seconds since its installation began, if a managed
    job has rented it and the price is known."""
    prices = json.loads(os.environ.get(PRICES_VARIABLE, "{}"))
    machine = json.loads(os.environ.get(_SKYPILOT_VARIABLE, "{}"))
    found = prices.get(machine.get("cloud", "").lower())
    since = float(os.environ.get("PRECIS_HELD_SINCE") or time.time())
    return (HourlyPrice(**found), max(0.0, time.time() - since)) if found else None
