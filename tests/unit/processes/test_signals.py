"""Orderly ends on signals."""

import asyncio
import os
import signal

import pytest

from precis.processes.signals import cancel_on_sigterm


async def test_a_second_sigterm_does_not_interrupt_the_clean_up() -> None:
    cleaned, ended = [], []

    async def work() -> None:
        with cancel_on_sigterm():
            try:
                os.kill(os.getpid(), signal.SIGTERM)
                await asyncio.sleep(3600)
            finally:
                os.kill(os.getpid(), signal.SIGTERM)
                await asyncio.sleep(0.1)
                cleaned.append(True)

    before = signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    try:
        with pytest.raises(asyncio.CancelledError):
            await asyncio.create_task(work())
    finally:
        signal.signal(signal.SIGTERM, before)
    assert cleaned and ended
