"""A training run that prints what each step takes, by clock and CPU: with Prefect, or without.

    python -m bench.flow.stepping flow CONFIG PAUSE_S
    python -m bench.flow.stepping bare CONFIG PAUSE_S

`bare` runs the very same functions, with each task replaced by the function it was made from and
with nothing shown anywhere. A pause in every step stands for a model that takes that long. A step
lasts until the next one begins, so that what goes on beside it counts where it holds it up.
"""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import pairwise
from typing import Any

from prefect.logging import disable_run_logger
from prefect.tasks import Task

from flows import train as train_flow
from precis.config import TrainConfig


class _NoReporter:
    def update(self) -> None:
        """There is nobody to show anything to."""


@asynccontextmanager
async def _not_shown(*_: Any) -> AsyncIterator[_NoReporter]:
    yield _NoReporter()


@contextmanager
def _without_prefect() -> Iterator[None]:
    def call(task: Any, *args: Any, **kwargs: Any) -> Any:
        return task.fn(*args, **kwargs)

    Task.__call__ = call  # type: ignore[method-assign, assignment]
    vars(train_flow)["report_progress"] = _not_shown
    with disable_run_logger():
        yield


def _timed(pause_s: float) -> list[tuple[float, float]]:
    """Have each step take down when it begins, by clock and by CPU, and begin with its pause."""
    begun: list[tuple[float, float]] = []
    step = train_flow.take_step

    async def timed(*args: Any, **kwargs: Any) -> None:
        begun.append((time.perf_counter(), time.process_time()))
        await asyncio.sleep(pause_s)
        await step(*args, **kwargs)

    vars(train_flow)["take_step"] = timed
    return begun


def main(mode: str, config: str, pause_s: str) -> None:
    """Run it and print the seconds of all steps but the last, by clock and of CPU, as JSON."""
    settings = TrainConfig.model_validate_json(config)
    begun = _timed(float(pause_s))
    if mode == "bare":
        with _without_prefect():
            asyncio.run(train_flow.train.fn(settings))
    else:
        asyncio.run(train_flow.train(settings))
    if len(begun) != settings.steps:
        raise SystemExit(f"The run ended after {len(begun)} of {settings.steps} steps.")
    print(json.dumps([(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(begun)]))


if __name__ == "__main__":
    main(*sys.argv[1:])
