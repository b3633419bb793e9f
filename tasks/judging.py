"""The judge's limit, where several flows share its key."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from prefect.concurrency.asyncio import concurrency

from precis.config import RunConfig
from precis.errors import JudgeUnavailable

_PATIENCE_S = 1800


@asynccontextmanager
async def judge_slots(config: RunConfig) -> AsyncIterator[None]:
    """This flow's share of a limit that several keep together, for as long as the block lasts.

    Taken for a whole step, validation or contender: for each request it would cost more than the
    judge's answer.

    Raises:
        JudgeUnavailable: no slots came free in half an hour.
    """
    name = config.judge_concurrency_limit
    wanted = config.judge.limits.in_flight
    async with AsyncExitStack() as stack:
        if name:
            slots = concurrency(name, occupy=wanted, timeout_seconds=_PATIENCE_S, strict=True)
            try:
                await stack.enter_async_context(slots)
            except TimeoutError as error:
                raise JudgeUnavailable(
                    f"The global concurrency limit {name!r} had no {wanted} free slots in "
                    f"{_PATIENCE_S // 60} minutes. If nobody uses it, a killed flow still holds "
                    f"some: free them with `prefect gcl update {name} --active-slots 0`."
                ) from error
        yield
