"""SIGTERM, as an end in order."""

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def cancel_on_sigterm() -> Iterator[None]:
    """Turn SIGTERM into the cancellation of this task; pass it on when the block is left.

    Whoever handled the signal before ends the process as it would have, only later. Outside the
    main thread nothing is changed: the signal goes elsewhere.
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
