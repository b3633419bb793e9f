"""ART's own `train_sft`, in the terms of our trainers."""

import math
from collections.abc import AsyncIterator, Iterable
from typing import Any

import art
from art import dev
from art.types import TrainSFTConfig

_SFT_BATCH = 8


class ImitatesInOnePass:
    """ART's own call of `train_sft` for a backend that has ours: one pass, metrics by update."""

    async def _train_sft(
        self,
        model: art.TrainableModel[Any, Any],
        trajectories: Iterable[art.Trajectory],
        config: TrainSFTConfig,
        dev_config: dev.TrainSFTConfig,
        verbose: bool = False,
    ) -> AsyncIterator[dict[str, float]]:
        shown = list(trajectories)
        size, rates = read_pass(config, len(shown), _SFT_BATCH)
        seen: list[dict[str, float]] = []
        backend: Any = self
        await backend.train_sft(model, shown, seen.append, batch_size=size, learning_rates=rates)
        for metrics in seen:
            yield metrics


def read_pass(config: TrainSFTConfig, count: int, size_default: int) -> tuple[int, list[float]]:
    """Return one pass over so many trajectories, which is what ART asks for: the trajectories of an
    update, and the learning rate of each update."""
    size = size_default if config.batch_size == "auto" else config.batch_size
    updates = math.ceil(count / size)
    rate = config.learning_rate
    rates = rate if isinstance(rate, list) else [rate] * updates
    return size, rates[:updates]
