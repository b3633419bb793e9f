"""A watchdog for training on a GPU, where a call that hangs can't be interrupted."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable

from precis.errors import TrainerError

STALL_S = 1200.0
"""A training without progress for so long is hung; the first gradient step compiles for minutes."""
NOTICE_S = 2.0
"""The time that the answer to a training that failed waits for the loss of a process, which
explains it better."""
_LAST_WORDS_S = NOTICE_S + 2
"""The time that the process outlives a training that failed, so that the client still hears why."""
_BROKEN = 70
"""Exit status of a trainer that can't continue (EX_SOFTWARE)."""
_log = logging.getLogger(__name__)


async def watch_steps(
    steps: AsyncIterator[dict[str, float]], stall_s: float, hung: Callable[[], None]
) -> AsyncIterator[dict[str, float]]:
    """Yield the same steps, as long as each comes in time; where one does not, call `hung` and
    raise a TrainerError."""
    while True:
        try:
            step = await asyncio.wait_for(anext(steps), stall_s)
        except StopAsyncIteration:
            return
        except TimeoutError:
            hung()
            raise TrainerError(f"Training showed no progress for {stall_s:.0f} s.") from None
        yield step


def end_after_answer(reason: str) -> None:
    """End this trainer as `end_process` does, once its client has been told of the failure."""
    asyncio.get_running_loop().call_later(_LAST_WORDS_S, end_process, reason)


def end_process(reason: str) -> None:
    """End this trainer at once; the flow brings up another, which begins where the store is."""
    _log.error("%s: the trainer ends.", reason)
    os._exit(_BROKEN)
