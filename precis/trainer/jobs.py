"""Long operations that outlive a lost connection."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

from precis.errors import PrecisError, TrainerError
from precis.processes.causes import cause_of
from precis.processes.child import log_end, output_since
from precis.processes.supervisor import end_if_broken
from precis.trainer.backend import Progress
from precis.trainer.protocol import HEARTBEAT_S, Event, Json
from precis.trainer.watchdog import NOTICE_S

logger = logging.getLogger(__name__)


@dataclass
class Job:
    """A long operation: it continues when its client is gone, and can be attached to again."""

    task: asyncio.Task[Json]
    progress: list[Json] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    began: int = field(default_factory=log_end)
    """The end of the log when it was started."""

    async def events(self) -> AsyncIterator[bytes]:
        """Heartbeats and progress until the end, then the result or the error."""
        told = 0
        self.task.add_done_callback(lambda _: self.changed.set())
        while not self.task.done():
            try:
                await asyncio.wait_for(self.changed.wait(), HEARTBEAT_S)
                self.changed.clear()
            except TimeoutError:
                yield _line(Event(event="heartbeat"))
            for progress in self.progress[told:]:
                yield _line(Event(event="progress", data=progress))
            told = len(self.progress)
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

    def start(self, key: str, work: Callable[[Progress], Awaitable[Json]]) -> Job:
        """Start the work, or attach to it if it is under way."""
        running = self._running.get(key)
        if running is not None:
            return running

        def tell(data: dict[str, float]) -> None:
            job.progress.append(data)
            job.changed.set()

        job = Job(asyncio.ensure_future(work(tell)))
        job.task.add_done_callback(lambda _: self._running.pop(key, None))
        self._running[key] = job
        return job


def _line(event: Event) -> bytes:
    return event.model_dump_json().encode() + b"\n"
