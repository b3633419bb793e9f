"""Long operations that outlive a lost connection, and a watchdog for training on a GPU, where a
call that hangs can't be interrupted."""

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from precis.errors import PrecisError, TrainerError
from precis.processes.causes import cause_of
from precis.processes.child import log_end, output_since
from precis.processes.supervisor import end_if_broken, end_process
from precis.trainer.protocol import HEARTBEAT_S, Event, Json

_STALL_S = 1200.0
"""A training without progress for so long is hung; the first gradient step compiles for minutes."""
_NOTICE_S = 2.0
"""The time that the answer to a training that failed waits for the loss of a process, which
explains it better."""
_LAST_WORDS_S = _NOTICE_S + 2
"""The time that the process outlives a training that failed, so that the client still hears why."""
logger = logging.getLogger(__name__)


@dataclass
class Job:
    """A long operation: it continues when its client is gone, and can be attached to again."""

    task: asyncio.Task[Json]
    began: int = field(default_factory=log_end)
    """The end of the log when it was started."""

    async def events(self) -> AsyncIterator[bytes]:
        """Yield heartbeats until the end, then the result or the error, each as a line."""
        while not self.task.done():
            await asyncio.wait({self.task}, timeout=HEARTBEAT_S)
            yield _line(Event(event="heartbeat"))
        error = self.task.exception()
        if error is None:
            yield _line(Event(event="result", data=self.task.result()))
            return
        if not isinstance(error, PrecisError):
            # The backend may say so before the process that it lost is gone.
            await asyncio.to_thread(end_if_broken, _NOTICE_S)
            logger.error("The backend failed.", exc_info=error)
            said = f"{type(error).__name__}: {error}"
            error = TrainerError(
                f"The trainer's backend failed: {cause_of(said, output_since(self.began))}"
            )
        data = {"type": type(error).__name__, "message": str(error)}
        yield _line(Event(event="error", data=data))


def _line(event: Event) -> bytes:
    return event.model_dump_json().encode() + b"\n"


async def watch_steps(
    steps: AsyncIterator[dict[str, float]], training: str
) -> AsyncIterator[dict[str, float]]:
    """Yield the metrics of a training as they come; one that hangs or fails ends this process."""
    try:
        while True:
            try:
                metrics = await asyncio.wait_for(anext(steps), _STALL_S)
            except StopAsyncIteration:
                return
            except TimeoutError:
                end_process(f"{training} showed no progress for {_STALL_S:.0f} s")
            yield metrics
    except Exception as error:
        # The adapter in memory has moved by some of the updates, and no file says by which.
        end_after_answer(f"{training} failed ({error})")
        raise


def end_after_answer(reason: str) -> None:
    """End this trainer as `end_process` does, once its client has the failure."""
    asyncio.get_running_loop().call_later(_LAST_WORDS_S, end_process, reason)
