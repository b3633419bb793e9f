"""Checkpoints that a trainer serves while they are benchmarked, wherever the trainer is."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from precis.benchmark.contender import ContenderSpec
from precis.errors import TrainerLost
from precis.statistics.standings import Contender
from precis.trainer.client import RemoteTrainer
from precis.training.connection import TrainerConnection

T = TypeVar("T")


class CheckpointServer:
    """Serves checkpoints, and is brought up again where its trainer is lost.

    Args:
        fetch: has a trainer serve the checkpoints; says how each is asked then.
        trainer: serves them.
        recoveries_max: how often it may be lost.
        warn: told of each loss.
        show: shows the run under a name and a message while it is no usual one.

    Attributes:
        contenders: the checkpoints, asked where the trainer is now.
    """

    def __init__(
        self,
        fetch: Callable[[RemoteTrainer], Awaitable[list[ContenderSpec]]],
        trainer: TrainerConnection,
        recoveries_max: int,
        warn: Callable[[str], None],
        show: Callable[[str, str], Awaitable[None]],
    ) -> None:
        self.contenders: list[ContenderSpec] = []
        self._fetch_from = fetch
        self._trainer = trainer
        self._recoveries_max = recoveries_max
        self._warn = warn
        self._show = show
        self._losses = 0

    async def fetch(self) -> None:
        """Have the trainer serve the checkpoints.

        Raises:
            TrainerLost: it was lost more than `recoveries_max` times in this benchmark.
        """
        await self._retrying(self._fetch)

    async def with_checkpoint(
        self, contender: Contender, work: Callable[[ContenderSpec], Awaitable[T]]
    ) -> T:
        """Do what needs a checkpoint; where the trainer is lost, do all of it again.

        Raises:
            TrainerLost: it was lost more than `recoveries_max` times in this benchmark.
        """

        async def work_where_it_is_now() -> T:
            spec = next(one for one in self.contenders if one.contender == contender)
            return await work(spec)

        return await self._retrying(work_where_it_is_now)

    async def _retrying(self, work: Callable[[], Awaitable[T]]) -> T:
        lost = False
        while True:
            try:
                if lost:
                    await self._bring_up()
                    lost = False
                return await work()
            except TrainerLost as error:
                lost = True
                self._losses += 1
                if self._losses > self._recoveries_max:
                    raise
                self._warn(f"{error} It is brought up again.")
                await self._show("Preempted", str(error))

    async def _bring_up(self) -> None:
        await self._show("Recovering", "The trainer is brought up again.")
        await self._trainer.bring_up()
        await self._fetch()
        await self._show("Running", "The trainer is back.")

    async def _fetch(self) -> None:
        self.contenders = await self._fetch_from(self._trainer.client)
