"""Long operations that outlive a lost connection."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

from precis.errors import PrecisError, TrainerError
from precis.processes.causes import cause_of
from precis.processes.child import log_end, output_since
from precis.processes.supervisor import end_if_broken
from precis.trainer.protocol import HEARTBEAT_S, Event, Json
from precis.trainer.watchdog import NOTICE_S

logger = logging.getLogger(__name__)


@dataclass
class Job:
    """A long operation: it continues when its client is gone, and can be attached to again."""

    task: asyncio.Task[Json]
    began: int = field(default_factory=log_end)
    """The end of the log when it was started."""

    async def events(self) -> AsyncIterator[bytes]:
        """Heartbeats until the end, then the result or the error."""
        while not self.task.done():
            ended, _ = await asyncio.wait({self.task}, timeout=HEARTBEAT_S)
            if not ended:
                yield _line(Event(event="heartbeat"))
        error = self.task.exception()
        if error is None:
            yield _line(Event(event="result", data=self.task.result()))
            return
        if not isinstance(error, PrecisError):
            # The backend may say so before the process that it lost is gone.
            await asyncio.to_thread(end_if_broken, NOTICE_S)
            logger.error("The backend failed.", exc_info=error)
            said = f"{type(error).__name__}: {error}"
            error = TrainerError(
                f"The trainer's backend failed: {cause_of(said, output_since(self.began))}"
            )
        data = {"type": type(error).__name__, "message": str(error)}
        yield _line(Event(event="error", data=data))


class Jobs:
    """The long operations under way, by what they do: asking for one again attaches to it."""

    def __init__(self) -> None:
        self._running: dict[str, Job] = {}

    def start(self, key: str, work: Callable[[], Awaitable[Json]]) -> Job:
        """Start the work, or attach to it if it is under way."""
        running = self._running.get(key)
        if running is not None:
            return running
        job = Job(asyncio.ensure_future(work()))
        job.task.add_done_callback(lambda _: self._running.pop(key, None))
        self._running[key] = job
        return job


def _line(event: Event) -> bytes:
    return event.model_dump_json().encode() + b"\n"
