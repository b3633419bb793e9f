"""A server's list of models is bounded in bytes and time, and says nothing that it should not."""

import asyncio
import json
from collections.abc import Callable, Iterator

import pytest

from precis.errors import ConfigError
from precis.inference.local_server import find_served, list_models
from tests.security.hostile import (
    MIB,
    bomb,
    dripping,
    endless,
    hostile,
    quoting,
    quoting_in_the_status_line,
)

KEY = "sk-or-v1-0123456789abcdef"


def listing(*names: str) -> Callable[[str], Iterator[bytes]]:
    return quoting(200, lambda _: json.dumps({"data": [{"id": name} for name in names]}))


@pytest.mark.parametrize("answer", [endless, bomb])
async def test_a_list_without_end_is_not_read(answer: Callable[[str], Iterator[bytes]]) -> None:
    async with hostile(answer) as server:
        with pytest.raises(ConfigError, match="lists its models without end"):
            await list_models(server.url, KEY)
    assert server.sent < 32 * MIB


async def test_a_list_that_drips_costs_its_deadline_and_no_more() -> None:
    async with dripping() as url:
        with pytest.raises(ConfigError, match="does not list its models within 1 s"):
            await asyncio.wait_for(list_models(url, KEY, 1.0), 30)


@pytest.mark.parametrize(
    "answer",
    [
        quoting(200, lambda key: json.dumps({"data": [{"id": key}, {"id": f"m-{key}@1"}]})),
        quoting(401, lambda key: f"{key} is not a key of ours"),
        quoting_in_the_status_line,
    ],
)
async def test_a_server_that_quotes_the_key_has_nobody_print_it(
    answer: Callable[[str], Iterator[bytes]],
) -> None:
    async with hostile(answer) as server:
        with pytest.raises(ConfigError) as raised:
            await find_served(server.url, "", KEY)
    assert server.keys == [KEY]
    assert "0123456789" not in repr(raised.value)
    assert not raised.value.__cause__ or "0123456789" not in repr(raised.value.__cause__)


async def test_a_name_that_moves_the_cursor_is_no_name() -> None:
    async with hostile(listing("a@1", "\x1b]0;owned\x07\x1b[2J")) as server:
        assert await list_models(server.url, KEY) is None
    async with hostile(listing("a@1", "My Model.gguf")) as server:
        assert await list_models(server.url, KEY) == ["a@1", "My Model.gguf"]
