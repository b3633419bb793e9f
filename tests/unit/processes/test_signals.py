"""Orderly ends on signals."""

import asyncio
import os
import signal

import pytest

from precis.processes.signals import as_interrupts, cancel_on_sigterm


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


def test_sigterm_interrupts_where_ctrl_c_is_ignored_as_in_a_shell_s_background_job() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pytest.raises(KeyboardInterrupt), as_interrupts():
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGINT, before)
