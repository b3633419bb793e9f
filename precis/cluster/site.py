"""The common parts of this machine and a rented one as the place of a trainer."""

from dataclasses import dataclass, field
from typing import Protocol

from precis.cluster.price import HourlyPrice


@dataclass(frozen=True)
class TrainerAddress:
    """The address of a trainer, and the bearer token it asks for."""

    url: str
    token: str = field(repr=False)


class TrainerHost(Protocol):
    """A place that a trainer runs at: this machine, or a rented one."""

    @property
    def place(self) -> str:
        """The machine that it is up on, for messages."""

    @property
    def price(self) -> HourlyPrice | None:
        """The price of that machine; None where it is not rented."""

    async def up(self) -> TrainerAddress:
        """Bring the trainer up, or find it again; doing it again has no further effect."""

    async def down(self) -> None:
        """Leave nothing behind."""
