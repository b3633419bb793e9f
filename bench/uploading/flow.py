"""The training flow with the heavy trainer; the run's settings are its argument, as JSON."""

import asyncio
import sys
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from prefect import flow

from flows.train import run_training
from precis.config import TrainConfig
from precis.processes.child import ChildService, child_service


def launch_heavy(
    module: str, arguments: Sequence[str], log: Path, *rest: Any, **options: Any
) -> AbstractAsyncContextManager[ChildService]:
    """Start a service; in the trainer's place, the heavy one."""
    started = "bench.uploading.trainer" if module == "precis.trainer.server" else module
    return child_service(started, arguments, log, *rest, **options)


@flow(name="train")
async def train_heavily(config: str) -> None:
    """The training flow, but for its trainer."""
    await run_training(TrainConfig.model_validate_json(config), launch_heavy)


if __name__ == "__main__":
    asyncio.run(train_heavily(sys.argv[1]))
