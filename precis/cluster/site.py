"""The common interface of this machine and a rented one as a trainer's host."""

from dataclasses import dataclass, field
from typing import Protocol

from precis.cluster.price import HourlyPrice


@dataclass(frozen=True)
class TrainerAddress:
    """The address of a trainer, and its bearer token."""

    url: str
    token: str = field(repr=False)


class TrainerHost(Protocol):
    """A host of a trainer: this machine, or a rented one."""

    @property
    def place(self) -> str:
        """The name of the machine, for messages."""

    @property
    def price(self) -> HourlyPrice | None:
        """The price of that machine; None if it is not rented."""

    async def up(self) -> TrainerAddress:
        """Start the trainer, or find it again; idempotent."""

    async def down(self) -> None:
        """Stop the trainer, and take down a rented machine."""
