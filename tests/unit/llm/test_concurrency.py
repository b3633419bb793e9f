"""Requests that are sent together."""

import asyncio

import pytest

from precis.llm.concurrency import run_for_each


async def test_the_first_failure_cancels_the_others_and_is_raised_as_it_is() -> None:
    ended: list[int] = []

    async def ask(number: int) -> None:
        if number == 3:
            raise ValueError("It broke off.")
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(number)

    with pytest.raises(ValueError, match="It broke off"):
        await run_for_each(ask, range(1, 5))
    assert ended == [1, 2, 4]
