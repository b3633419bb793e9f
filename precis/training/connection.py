"""A running trainer: its client, the cost of its machine, and how often it was lost."""

from collections.abc import Awaitable, Callable

from precis.cluster.site import TrainerAddress
from precis.trainer.client import RemoteTrainer
from precis.training.meter import Meter


class TrainerConnection:
    """A trainer, and the way to start it again after a loss.

    Attributes:
        client: talks to the trainer at its present address.
        meter: the cost of its machine; the code that starts the machine starts the meter.
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
        """Start it again, perhaps at another address; it no longer knows any model. Raises
        TrainerError or ClusterError where that fails."""
        self.meter.stop()
        await self.client.move_to(await self._start())

    def count_loss(self, losses_max: int) -> bool:
        """Count one more loss; return whether there are no more than `losses_max`."""
        self.losses += 1
        return self.losses <= losses_max

    def count_progress(self) -> None:
        """Forget earlier losses, since a step was committed."""
        self.losses = 0
