"""ART's `train_sft` by our trainers' method."""

import math
from collections.abc import AsyncIterator, Iterable
from typing import Any

import art
from art import dev
from art.types import TrainSFTConfig

_SFT_BATCH = 2
"""Trajectories of an update if ART is given no number: its default."""


class ImitatesInOnePass:
    """ART's call of `train_sft` for a backend with our method: one pass, with its metrics at the
    end."""

    async def _train_sft(
        self,
        model: art.TrainableModel[Any, Any],
        trajectories: Iterable[art.Trajectory],
        config: TrainSFTConfig,
        dev_config: dev.TrainSFTConfig,
        verbose: bool = False,
    ) -> AsyncIterator[dict[str, float]]:
        shown = list(trajectories)
        size = _SFT_BATCH if config.batch_size == "auto" else config.batch_size
        updates = math.ceil(len(shown) / size)
        rate = config.learning_rate
        rates = rate if isinstance(rate, list) else [rate] * updates
        backend: Any = self
        result = await backend.train_sft(
            model, shown, batch_size=size, learning_rates=rates[:updates]
        )
        yield result.metrics
