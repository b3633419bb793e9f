"""ART's own settings of `train_sft`, in the terms of our trainers."""

import math

from art.types import TrainSFTConfig


def read_pass(config: TrainSFTConfig, count: int, size_default: int) -> tuple[int, list[float]]:
    """One pass over trajectories, which is what ART asks for.

    Args:
        count: of the trajectories.
        size_default: trajectories of an update, where ART leaves that to the backend.

    Returns:
        Trajectories of an update, and the learning rate of each update.
    """
    size = size_default if config.batch_size == "auto" else config.batch_size
    updates = math.ceil(count / size)
    rate = config.learning_rate
    rates = rate if isinstance(rate, list) else [rate] * updates
    return size, rates[:updates]
