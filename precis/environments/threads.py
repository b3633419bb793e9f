"""Threads in which a user's functions may block, while the flow continues.

A thread can't be ended from outside. One that still runs after its rollout has ended is abandoned,
and after too many of these no new one is started.
"""

import asyncio
import contextvars
import inspect
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures.thread import _threads_queues
from contextlib import suppress
from typing import Any

from precis.errors import RolloutError

ABANDONED_MAX = 8
_GRACE_S = 4.0
"""The time for a cancelled function to end; the recorder waits a little longer."""
_OF_ANOTHER_LOOP = ("different event loop", "different loop", "Event loop is closed")
"""Parts of Python's errors about clients and locks of another event loop."""


class UserThreads:
    """Runs each function of a file in a new thread with its own event loop."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._folder = os.getcwd()
        self._abandoned: list[_UserThread] = []

    async def run(self, function: Callable[..., Any], *given: Any) -> Any:
        """Return the result of a function, or of its coroutine. Cancellation cancels the coroutine;
        a function that does not end then is abandoned, and a RolloutError is raised after too
        many, and for a changed working directory."""
        self._abandoned = [one for one in self._abandoned if one.is_alive()]
        count = len(self._abandoned)
        if count >= ABANDONED_MAX:
            raise RolloutError(
                f"{self._where}: {count} functions are still running though their rollouts have "
                "ended, and nothing can end them.",
                "Give whatever they wait for a timeout, and each of their loops an end.",
            )
        thread = _UserThread(function, given)
        thread.start()
        ended = asyncio.wrap_future(thread.ended)
        try:
            await asyncio.shield(ended)
        except asyncio.CancelledError:
            thread.cancel()
            await asyncio.wait({ended}, timeout=_GRACE_S)
            if not ended.done():
                ended.cancel()
                self._abandoned.append(thread)
                # A process that ends waits for each thread of a pool, as `asyncio.to_thread` uses.
                for worker in tuple(_threads_queues):
                    if worker.daemon:  # started by a rollout
                        _threads_queues.pop(worker, None)  # type: ignore[attr-defined]
            raise
        if not os.path.samefile(os.curdir, self._folder):
            os.chdir(self._folder)
            raise RolloutError(
                f"{self._where} changed the working directory, which all rollouts share.",
                "Start programs with a `cwd` instead, and open files by their whole paths.",
            )
        if thread.error is not None:
            raise thread.error
        return thread.returned


class _UserThread(threading.Thread):
    """Runs one function; `ended` is done when it has `returned`, or left its `error`."""

    def __init__(self, function: Callable[..., Any], given: tuple[Any, ...]) -> None:
        # A daemon, so that it doesn't keep the process alive.
        super().__init__(name="precis-rollout", daemon=True)
        self.ended: Future[None] = Future()
        self.ended.set_running_or_notify_cancel()
        self.returned: Any = None
        self.error: BaseException | None = None
        self._function = function
        self._given = given
        self._callers = contextvars.copy_context()  # `_context` is the thread's own in Python 3.14
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None
        self._cancelled = False

    def run(self) -> None:
        try:
            self.returned = self._callers.run(self._call)
        except (KeyboardInterrupt, GeneratorExit) as error:
            # Threads get no Ctrl-C: the user's code raised it.
            raised = RuntimeError(f"It raised {type(error).__name__}.")
            self.error = raised.with_traceback(error.__traceback__)
        except BaseException as error:
            self.error = error
            said = str(error) if isinstance(error, RuntimeError) else ""
            if any(part in said for part in _OF_ANOTHER_LOOP):
                explained = RuntimeError(
                    "Each rollout has its own event loop: make its clients and locks inside "
                    f"the function, and not for the whole file. {error}"
                )
                self.error = explained.with_traceback(error.__traceback__)
        finally:
            self.ended.set_result(None)

    def cancel(self) -> None:
        """Cancel the coroutine, now or once there is one."""
        self._cancelled = True
        if self._loop is not None and self._task is not None:
            with suppress(RuntimeError):  # it has just ended
                self._loop.call_soon_threadsafe(self._task.cancel)

    def _call(self) -> Any:
        returned = self._function(*self._given)
        if not inspect.isawaitable(returned):
            return returned

        async def wait() -> Any:
            self._task = asyncio.current_task()
            self._loop = asyncio.get_running_loop()
            if self._cancelled and self._task is not None:
                self._task.cancel()
            return await returned

        return asyncio.run(wait())
