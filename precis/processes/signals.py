"""Orderly ends on SIGTERM and SIGHUP."""

import asyncio
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def cancel_on_sigterm() -> Iterator[None]:
    """Turn SIGTERM into the cancellation of this task; re-raise it after the block.

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
        told = True
        assert task is not None
        task.cancel()

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
    """Make SIGTERM and SIGHUP act like Ctrl-C within the block.

    No-op in other threads than the main one; an ignored signal stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        signal.raise_signal(signal.SIGINT)

    before = {}
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def passed_on(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Forward SIGINT, SIGTERM and SIGHUP to a process within the block."""

    def pass_on(number: int, frame: FrameType | None) -> None:
        process.send_signal(number)

    before = {number: signal.signal(number, pass_on) for number in _ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
