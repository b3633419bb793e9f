"""Long operations that outlive a lost connection, and a watchdog for training on a GPU, where a
hung call can't be interrupted."""

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
"""A training without progress for this time is hung; the first update compiles for minutes."""
_NOTICE_S = 2.0
"""How long the answer to a failed training waits for the loss of a process, which explains it
better."""
_LAST_WORDS_S = _NOTICE_S + 2
"""How long the process outlives a failed training, so that the client still gets the reason."""
logger = logging.getLogger(__name__)


@dataclass
class Job:
    """A long operation, which continues without its client, and to which clients can attach."""

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
            # The backend may report it before its lost process has ended.
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
    """Yield the metrics of a training as they come; a hung or failed one ends this process."""
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
        # The adapter in memory has an unknown number of the step's updates.
        end_after_answer(f"{training} failed ({error})")
        raise


def end_after_answer(reason: str) -> None:
    """End this trainer as `end_process` does, once its client has the failure."""
    asyncio.get_running_loop().call_later(_LAST_WORDS_S, end_process, reason)
