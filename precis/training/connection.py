"""A running trainer: its client, the cost of its machine, and its start after a loss."""

import logging
from collections.abc import Awaitable, Callable

from precis.cluster.site import Meter, TrainerAddress
from precis.errors import TrainerLost
from precis.trainer.client import RemoteTrainer

_log = logging.getLogger(__name__)


class TrainerConnection:
    """A trainer, and the way to start it again after a loss.

    Attributes:
        client: talks to the trainer at its present address.
        meter: the cost of its machine; the code that rents the machine starts and stops it.
        losses: how often it was lost since a step was last committed, or its benchmark began;
            beyond `losses_max` times it is not started again.
    """

    def __init__(
        self,
        client: RemoteTrainer,
        start: Callable[[], Awaitable[TrainerAddress]],
        meter: Meter,
        losses_max: int,
    ) -> None:
        self.client = client
        self.meter = meter
        self.losses = 0
        self._start = start
        self._losses_max = losses_max

    async def recover(
        self,
        lost: TrainerLost,
        show: Callable[[str, str], Awaitable[None]],
        restore: Callable[[], Awaitable[str]],
    ) -> None:
        """Start it again, perhaps at another address, and restore it, until both succeed. Raises
        TrainerError or ClusterError where the start fails.

        Args:
            lost: the loss; it, or the latest one, is raised if there were too many.
            show: shows the name of the run's state, and a message.
            restore: gives it the models that it had; returns a message.
        """
        while True:
            self.losses += 1
            if self.losses > self._losses_max:
                raise lost
            _log.warning("%s It is started again (%d).", lost, self.losses)
            await show("Preempted", str(lost))
            await show("Recovering", f"It is started again ({self.losses}).")
            try:
                await self.client.move_to(await self._start())
                message = await restore()
            except TrainerLost as error:
                lost = error
            else:
                await show("Running", message)
                return
