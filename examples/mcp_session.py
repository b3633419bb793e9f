"""Sessions with the MCP server of `mcp_agent.py`, over stdio or streamable HTTP."""

import asyncio
import logging
import os
import re
import tempfile
import threading
from contextlib import AsyncExitStack, asynccontextmanager

from precis.errors import without_passwords

try:
    from mcp import Client, StdioServerParameters, stdio_client
    from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client
except ImportError as error:
    raise ImportError("MCP's client is missing: run `pip install 'mcp>=2.3'`") from error

SLOTS = threading.BoundedSemaphore(8)
"""The most sessions at once, over all threads."""
logging.getLogger("mcp").setLevel(logging.CRITICAL)
logging.getLogger("httpx2").setLevel(logging.WARNING)


@asynccontextmanager
async def connect(server, variables, token, start_s):
    """Yield a session with a server. Raises ConnectionError with the reason if there is none.

    Args:
        server: a program with its arguments, or a URL.
        variables: names of environment variables to pass to the program.
        token: name of the variable with the URL's bearer token; empty for none.
        start_s: time limit for the server's first answer, in seconds.
    """
    while not SLOTS.acquire(blocking=False):  # noqa: ASYNC110 (other loops release them)
        await asyncio.sleep(0.05)
    try:
        with tempfile.TemporaryFile("w+", errors="replace") as log:
            async with AsyncExitStack() as stack:
                try:
                    async with asyncio.timeout(start_s):
                        transport = await open_transport(stack, server, variables, token, log)
                        session = await stack.enter_async_context(Client(transport))
                except Exception as error:
                    raise ConnectionError(describe(server, error, log)) from error
                yield session
    except ExceptionGroup as group:
        raise first_of(group) from group
    finally:
        SLOTS.release()


async def open_transport(stack, server, variables, token, log):
    if token and token not in os.environ:
        raise ValueError(f"the variable {token} is not set")
    if isinstance(server, str):
        headers = {"authorization": f"Bearer {os.environ[token]}"} if token else {}
        http = await stack.enter_async_context(create_mcp_http_client(headers=headers))
        return streamable_http_client(server, http_client=http)
    given = {name: os.environ[name] for name in variables if name in os.environ}
    return stdio_client(StdioServerParameters(command=server[0], args=server[1:], env=given), log)


def describe(server, error, log):
    """Return a sentence on a server that did not start, with the last line of its output."""
    error = first_of(error)
    log.seek(0)
    lines = [line.strip() for line in log.read().split("\n") if line.strip()]
    name = server if isinstance(server, str) else " ".join(server)
    cause = "it did not answer in time" if isinstance(error, TimeoutError) else str(error)
    printed = f" It printed: {lines[-1]}" if lines else ""
    said = f"The MCP server `{name}` can't be used: {cause.rstrip('.')}.{printed}"
    query = name.partition("?")[2]  # it may hold a key
    if query:
        said = said.replace(query, "…")
    return re.sub(r"[^ -~…]", "?", without_passwords(said))[:600]


def first_of(error):
    """Return the first error of nested groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def list_tools(session):
    """Return the tools in the format of OpenAI's API, and the server's names by the names there."""
    tools, names, cursor = [], {}, None
    while True:
        page = await session.list_tools(cursor=cursor)
        for one in page.tools:
            name = re.sub(r"[^\w-]", "_", one.name, flags=re.ASCII)[:64]
            names[name] = one.name
            function = {"name": name, "parameters": one.input_schema}
            function["description"] = one.description or ""
            tools.append({"type": "function", "function": function})
        cursor = page.next_cursor
        if cursor is None:
            return tools, names
