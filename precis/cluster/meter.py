"""The cost of rented machines."""

import time
from collections.abc import Callable

from precis.cluster.site import HourlyPrice


class Meter:
    """Adds up a price by the hour, less what is in a ledger; it runs from `start` to `stop`, any
    number of times.

    Attributes:
        price: of the present machine, or the one before.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
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
