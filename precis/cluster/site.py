"""The address of a trainer, and the price and the cost of the machine that it is on."""

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field

import httpx

PRICES_VARIABLE = "PRECIS_PRICES"
"""The variable with the price at each cloud that a managed job may rent from, as JSON."""
_SKYPILOT_VARIABLE = "SKYPILOT_CLUSTER_INFO"
"""SkyPilot's variable that names the cloud of the machine."""
_ANSWER_S = 5.0
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""The clock that also runs while this machine sleeps, when a rented one costs money too."""


@dataclass(frozen=True)
class TrainerAddress:
    """The address of a trainer, and its bearer token."""

    url: str
    token: str = field(repr=False)


async def answers(address: TrainerAddress, *, is_busy: bool = False) -> bool:
    """Return whether our trainer answers at an address; `is_busy` if nothing comes in time."""
    try:
        async with httpx.AsyncClient(timeout=_ANSWER_S, trust_env=False) as http:
            headers = {"authorization": f"Bearer {address.token}"}
            reply = await http.get(f"{address.url}/healthz", headers=headers)
    except httpx.TimeoutException:
        return is_busy
    except httpx.TransportError:
        return False
    return reply.status_code == 200


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


class Meter:
    """Adds up a price by the hour, less what is in a ledger; it runs from `start` to `stop`, any
    number of times.

    Attributes:
        price: of the present machine, or the one before.
    """

    def __init__(self, now: Callable[[], float] = lambda: time.clock_gettime(_CLOCK)) -> None:
        self._now = now
        self._usd = 0.0
        self._saved_usd = 0.0
        self._hours = 0.0
        self._since: float | None = None
        self.price = HourlyPrice(0.0, 0.0)
        self._up_s = 0.0
        self._found_at = 0.0

    def start(self, price: HourlyPrice, held_s: float = 0.0) -> None:
        """Count the price of a machine, held for `held_s` seconds already, from its beginning."""
        self.stop()
        self.price = price
        self._since = self._now() - held_s

    def note_uptime(self, up_s: float) -> None:
        """Note that the first machine was up for so many seconds when it was found."""
        if not self.hours:
            self._up_s = up_s
            self._found_at = self._now()

    def count_before(self, seconds: float) -> None:
        """Count the first machine for so many seconds up to now, not only since it was found, but
        no longer than it was up; a repeat counts nothing."""
        left_s = min(self._up_s, seconds - (self._now() - self._found_at))
        self._up_s = 0.0
        hours = max(0.0, left_s) / 3600
        self._usd += hours * self.price.usd_per_hour
        self._saved_usd += hours * self._saved_per_hour

    def stop(self) -> None:
        """Stop counting, once the machine is given back; idempotent."""
        self._usd = self.unbooked_usd
        self._saved_usd = self.unbooked_saved_usd
        self._hours = self.hours
        self._since = None

    def book(self, usd: float, saved_usd: float = 0.0) -> None:
        """Take off the part of the cost, and of the savings by spot, that is in a ledger."""
        self._usd -= usd
        self._saved_usd -= saved_usd

    @property
    def hours(self) -> float:
        """Hours that machines were held so far."""
        return self._hours + self._running_hours

    @property
    def unbooked_usd(self) -> float:
        """Dollars that are in no ledger yet."""
        return max(0.0, self._usd + self._running_hours * self.price.usd_per_hour)

    @property
    def unbooked_saved_usd(self) -> float:
        """Dollars saved by machines that a cloud may take back, and in no ledger yet."""
        return max(0.0, self._saved_usd + self._running_hours * self._saved_per_hour)

    @property
    def _saved_per_hour(self) -> float:
        return max(0.0, self.price.on_demand_usd_per_hour - self.price.usd_per_hour)

    @property
    def _running_hours(self) -> float:
        return 0.0 if self._since is None else (self._now() - self._since) / 3600
