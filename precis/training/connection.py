"""A trainer that is up: its client, what its machine costs, and how often it was lost."""

from collections.abc import Awaitable, Callable

from precis.cluster.site import TrainerAddress
from precis.trainer.client import RemoteTrainer
from precis.training.meter import Meter


class TrainerConnection:
    """A trainer, and how it is brought up again where it was lost.

    Attributes:
        client: talks to it, wherever it is now.
        meter: what its machine has cost; who starts the machine starts the meter.
        losses: how often it was lost since the last progress.
    """

    def __init__(
        self, client: RemoteTrainer, start: Callable[[], Awaitable[TrainerAddress]], meter: Meter
    ) -> None:
        self.client = client
        self.meter = meter
        self.losses = 0
        self._start = start

    async def bring_up(self) -> None:
        """Bring it up again, and continue with it wherever it is now; it knows no model any more.
        Raises TrainerError or ClusterError where it can't be had."""
        self.meter.stop()
        await self.client.move_to(await self._start())

    def count_loss(self, losses_max: int) -> bool:
        """Count one more loss; return whether there are no more than `losses_max`."""
        self.losses += 1
        return self.losses <= losses_max

    def count_progress(self) -> None:
        """Forget earlier losses, since a step was committed."""
        self.losses = 0
