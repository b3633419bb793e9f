"""The methods that a trainer server needs of its backend."""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import art
from art.types import TrainResult
from starlette.routing import BaseRoute


class TrainerBackend(art.Backend, Protocol):
    """ART's `Backend`, whose models survive a kill and can be forgotten.

    Checkpoints lie in ART's layout, `{path}/{project}/models/{name}/checkpoints/0007/`. A backend
    puts each there in one move, and continues from the highest. If its process is killed before
    `train` returns, a step counts whose checkpoint has a `metrics.json`, with these metrics; any
    other checkpoint is dropped, and the step trained again.
    """

    @property
    def completions(self) -> Sequence[BaseRoute]:
        """Routes that answer completions by the names that clients ask for, where that happens in
        this process; none where another process or machine answers."""

    async def train(
        self,
        model: art.TrainableModel[Any, Any],
        trajectory_groups: Iterable[art.TrajectoryGroup],
        **options: Any,
    ) -> TrainResult:
        """Turn the newest adapter into the next, and save it before this returns. `options` are the
        trainer's settings, such as `learning_rate`."""

    async def train_sft(
        self,
        model: art.TrainableModel[Any, Any],
        trajectories: Iterable[art.Trajectory],
        *,
        batch_size: int,
        learning_rates: Sequence[float],
    ) -> TrainResult:
        """As `train`, by imitation of the last message of each trajectory.

        Args:
            batch_size: trajectories of an update.
            learning_rates: of each update; the trajectories are gone through again and again, each
                time in another order.
        """

    async def forget(self, model: art.TrainableModel[Any, Any]) -> None:
        """Drop a model from memory: its files were replaced, or its settings have changed,
        and `register` comes next."""
