"""Orderly ends on SIGTERM and SIGHUP."""

import asyncio
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager


@contextmanager
def cancel_on_sigterm() -> Iterator[None]:
    """Turn SIGTERM into the cancellation of this task; re-raise it after the block. A second one
    does not interrupt the clean-up.

    The previous handler then ends the process, only later. No-op in other threads than the main
    one, which alone handles signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    told = False

    def end() -> None:
        nonlocal told
        assert task is not None
        if not told:
            task.cancel()
        told = True

    before = signal.getsignal(signal.SIGTERM)
    loop.add_signal_handler(signal.SIGTERM, end)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
        signal.signal(signal.SIGTERM, before)
        if told:
            os.kill(os.getpid(), signal.SIGTERM)


@contextmanager
def as_interrupts() -> Iterator[None]:
    """Make SIGTERM and SIGHUP act like Ctrl-C within the block. No-op in other threads than the
    main one; an ignored signal stays ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    numbers = [signal.SIGTERM, signal.SIGHUP]
    heeded = [one for one in numbers if signal.getsignal(one) is not signal.SIG_IGN]

    def interrupt(number: int) -> None:
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a shell's background job
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)

    with _handling(heeded, interrupt):
        yield


@contextmanager
def passed_on(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Forward SIGINT, SIGTERM and SIGHUP to a process within the block."""
    with _handling((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), process.send_signal):
        yield


@contextmanager
def _handling(numbers: Iterable[signal.Signals], act: Callable[[int], None]) -> Iterator[None]:
    before = {one: signal.signal(one, lambda number, _: act(number)) for one in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
