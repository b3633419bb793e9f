"""The forecast of asking a model many times."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class Estimate(Protocol):
    """An estimate that is said in a sentence, its `str`."""

    @property
    def usd(self) -> float | None:
        """Dollars; None where the price is not known."""

    @property
    def warnings(self) -> Sequence[str]:
        """The warnings about the forecast, a sentence each."""


@dataclass(frozen=True)
class Forecast:
    """An estimate of what a model will be asked for.

    Attributes:
        usd: dollars at list prices; None where the model's price is not known.
        minutes: the least that the limits allow, with the judge never idle.
        requests_per_day: the daily quota that was given, or None.
        thinks: the model may think at length, which costs tokens that are not counted here.
        role: who is asked, to begin a sentence with.
    """

    calls: int
    prompt_tokens: int
    completion_tokens: int
    usd: float | None
    minutes: float
    requests_per_day: int | None
    thinks: bool
    role: str = "The judge"
    model: str = ""

    @property
    def warnings(self) -> list[str]:
        """An unknown price, and a quota that does not suffice."""
        found = []
        if self.usd is None:
            found.append(
                f"No price is known for {self.model}: its cost is not counted. Give one in its "
                "prices."
            )
        if self.days > 1:
            found.append(f"The daily quota suffices for one of {self.days} days.")
        return found

    @property
    def days(self) -> int:
        """The number of days' quota that the run needs; 1 where no quota was given."""
        return math.ceil(self.calls / self.requests_per_day) if self.requests_per_day else 1

    def __str__(self) -> str:
        dollars = "at an unknown price" if self.usd is None else f"about ${self.usd:,.2f}"
        thinking = ", and what the model thinks on top" if self.thinks else ""
        tokens = self.prompt_tokens + self.completion_tokens
        cost = (
            f"{self.role} will be called about {self.calls:,} times: {tokens:,} tokens{thinking}, "
            f"{dollars}, at least {self.minutes:,.0f} min at its limits."
        )
        if self.days <= 1:
            return cost
        return (
            f"{cost} The quota of {self.requests_per_day:,} requests a day does not suffice: the "
            f"run needs {self.days} days of it. Raise the quota, or lower steps, "
            "rollouts_per_group or val_size."
        )
