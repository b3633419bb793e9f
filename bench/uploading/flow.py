"""The training flow with the heavy trainer; the run's settings are its argument, as JSON."""

import asyncio
import sys

from flows.train import train
from precis.cluster import local
from precis.config import TrainConfig

if __name__ == "__main__":
    local._MODULE = "bench.uploading.trainer"
    asyncio.run(train(TrainConfig.model_validate_json(sys.argv[1])))
