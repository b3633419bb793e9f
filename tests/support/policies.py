"""States of the embedded policy."""

import numpy as np

from precis.extractive.checkpoint_files import (
    TrainingState,
)
from precis.extractive.features import NAMES
from precis.extractive.grpo import Adam
from precis.extractive.policy import Policy


def trained_at(step: int) -> TrainingState:
    values = np.random.default_rng(step).normal(size=(4, len(NAMES))) / 3
    return TrainingState(step, Policy(values[0], 7), values[1], Adam(values[2], values[3], 12))
