"""What a rented machine costs while it is held."""

import time
from collections.abc import Callable


class Meter:
    """Adds up a price by the hour; it runs from `start` to `stop`, any number of times."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._usd = 0.0
        self._hours = 0.0
        self._booked = 0.0
        self._since: float | None = None
        self.usd_per_hour = 0.0

    def start(self, usd_per_hour: float) -> None:
        """A machine of this price is held from now on."""
        self.stop()
        self.usd_per_hour = usd_per_hour
        self._since = self._now()

    def stop(self) -> None:
        """It is held no more; doing it again has no further effect."""
        self._usd = self.usd
        self._hours = self.hours
        self._since = None

    def book(self, usd: float) -> None:
        """So much of it stands in a ledger."""
        self._booked += usd

    @property
    def unbooked_usd(self) -> float:
        """Dollars that stand in no ledger yet."""
        return max(0.0, self.usd - self._booked)

    @property
    def hours(self) -> float:
        """Hours that machines were held so far."""
        running = 0.0 if self._since is None else (self._now() - self._since) / 3600
        return self._hours + running

    @property
    def usd(self) -> float:
        """Dollars that they have cost so far."""
        return self._usd + (self.hours - self._hours) * self.usd_per_hour
