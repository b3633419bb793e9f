"""The example agent with an MCP server's tools, over both transports, scored by a judge."""

import asyncio
import json
import re
import runpy
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from precis.environments.python import PythonEnvironment
from precis.llm.server import ChatRequest, Choice, Completion, ToolCall, completions_app
from precis.processes.child import free_port
from precis.records.rollout import UNJUDGED, Rollout, Unscored
from tests.services.patience import patience_s, wait_until
from tests.support.examples import EXAMPLES, call, example, play, with_settings
from tests.support.local_server import serving
from tests.support.scripted_policy import ScriptedPolicy

ODD = """
import os, time
from mcp.server import MCPServer

server = MCPServer("odd", log_level="CRITICAL")

@server.tool(name="files/read.all")
def read_all(count: int) -> str:
    return "x" * count

@server.tool()
def hang() -> str:
    time.sleep(3600)
    return "never"

@server.tool()
def fail() -> str:
    raise RuntimeError("it is broken")

@server.tool()
def die() -> str:
    os._exit(3)

@server.tool()
def picture() -> list:
    from mcp.server.mcpserver import Image
    return [Image(data=b"PNG", format="png"), "a caption"]

@server.tool()
def tell() -> str:
    return " ".join(os.environ)

server.run()
"""


def odd(folder: Path, **settings: Any) -> PythonEnvironment:
    """The example with a server whose tools misbehave."""
    file = folder / "odd.py"
    file.write_text(ODD, "utf-8")
    given = {"SERVER": [sys.executable, str(file)], "START_S": patience_s(), "TOOL_S": patience_s()}
    return example("mcp_agent.py", **given, **settings)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The example's server over HTTP."""
    port = free_port()
    command = [sys.executable, str(EXAMPLES / "mcp_server.py"), str(port)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: _answers(port), "the MCP server")
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.terminate()


def _answers(port: int) -> bool:
    with closing(socket.socket()) as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def asks(request: ChatRequest) -> ToolCall:
    """Looks for a free room, books the first one, and says so."""
    last = request.messages[-1]
    (day,) = re.findall(r"\w+day", request.messages[1]["content"])
    if last["role"] == "user":
        return call(request, "list_free_rooms", day=day)
    found = re.match(rf"Free on {day}: (\w+) with", last["content"])
    if found:
        return call(request, "book_room", room=found[1], day=day)
    return call(request, "complete_task", answer=last["content"])


def results(rollout: Rollout) -> list[str]:
    """What the tools said, as the last call shows it."""
    messages = rollout.calls[-1].messages
    return [one["content"] for one in messages if one["role"] == "tool"]


def is_unjudged(rollout: Rollout) -> bool:
    return isinstance(rollout.score, Unscored) and rollout.score.cause == UNJUDGED


@pytest.mark.parametrize("over", ["stdio", "http"])
async def test_the_tools_of_a_server_are_called(over: str, request: pytest.FixtureRequest) -> None:
    server = {"SERVER": request.getfixturevalue("url")} if over == "http" else {}
    patience = patience_s()
    environment = example("mcp_agent.py", START_S=patience, TOOL_S=patience, **server)
    policy = ScriptedPolicy(asks)
    for rollout in await play(environment, policy, 2):
        assert is_unjudged(rollout)
        listed, booked = results(rollout)
        assert listed.startswith("Free on ")
        assert re.fullmatch(r"\w+ is booked for \w+day\.", booked)
    names = [one["function"]["name"] for one in policy.requests[0].tools or ()]
    assert names == ["list_free_rooms", "book_room", "complete_task"]
    assert not await environment.checks()


async def test_a_server_over_http_is_sent_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        seen.append(dict(scope["headers"]).get(b"authorization", b"").decode())
        await send({"type": "http.response.start", "status": 403, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async with serving(app) as url:
        server = f"{url}/mcp?key=a-key-of-the-office"
        environment = example("mcp_agent.py", SERVER=server, TOKEN="OFFICE_TOKEN")
        (problem,) = await environment.checks()
        assert problem.endswith("the variable OFFICE_TOKEN is not set.")
        assert not seen
        monkeypatch.setenv("OFFICE_TOKEN", "a-token-of-the-office")
        (problem,) = await environment.checks()
    assert set(seen) == {"Bearer a-token-of-the-office"}
    assert problem.startswith("The MCP server `http")
    assert "of-the-office" not in problem


BAD: dict[tuple[str, str], str] = {
    ("hang", "{}"): "The tool failed: ",
    ("fail", "{}"): "Error executing tool fail",
    ("files_read_all", '{"count": 9000}'): f"{'x' * 8000} … (the rest is left",
    ("files_read_all", '{"count": "many"}'): "Error executing tool files/read",
    ("picture", "{}"): "(it has no text)\na caption",
    ("no_such_tool", "{}"): "This call can't be made: there is no tool no_such",
    ("fail", "{"): "This call can't be made: Expecting property name",
    ("fail", "[1]"): "This call can't be made: its arguments are no object.",
    ("fail", "[" * 5000): "This call can't be made: ",  # too deep to read, but cut short for 3.13
    ("fail", '{"a": "\\ud800"}'): "This call can't be made: 'utf-8' codec can't",
    ("die", "{}"): "The tool failed: Connection closed",
}
"""Calls of one attempt, one after the other, and how the answer to each begins."""


async def test_bad_calls_are_answered_and_a_hanging_tool_ends(tmp_path: Path) -> None:
    environment = odd(tmp_path, TURNS_MAX=len(BAD) + 2)

    def say(request: ChatRequest) -> str | ToolCall:
        turn = sum(one["role"] == "assistant" for one in request.messages)
        if turn < len(BAD):
            name, given = list(BAD)[turn]
            vars(environment._module)["TOOL_S"] = 1.0 if name == "hang" else patience_s()
            return ToolCall(f"call-{turn}", name, given)
        return "Hm."

    (rollout,) = await play(environment, ScriptedPolicy(say))
    answers = results(rollout)
    assert [one[: len(said)] for one, said in zip(answers, BAD.values(), strict=True)] == [
        *BAD.values()
    ]
    assert max(map(len, answers)) < 8100
    assert is_unjudged(rollout), "it went on to the end"
    assert len(rollout.calls) == len(BAD) + 2
    assert rollout.calls[-1].messages[-1]["content"] == "Call a tool, or complete_task."


@pytest.mark.parametrize(
    ("program", "problem"),
    [
        (["no-such-program"], r".*`no-such-program` can't be used: \[Errno 2\] No such file.*"),
        (
            [sys.executable, "-c", "import sys; print('hi'); sys.exit('No key \\x1b[31m.')"],
            r".* can't be used: Connection closed\. It printed: No key \?\[31m\.",
        ),
        ([sys.executable, "-c", "import time; time.sleep(60)"], r".*it did not answer in time\."),
        ("http://me:secret@127.0.0.1:9/mcp", r".* `http://…@127\.0\.0\.1:9/mcp` can't be used: .+"),
    ],
)
async def test_a_server_that_can_t_start_is_told(program: list[str] | str, problem: str) -> None:
    patience = 2 if problem.endswith("in time\\.") else patience_s()
    environment = example("mcp_agent.py", SERVER=program, START_S=patience)
    (said,) = await environment.checks()
    assert re.fullmatch(problem, said)
    (rollout,) = await play(environment, ScriptedPolicy(), 1)
    assert isinstance(rollout.score, Unscored)
    assert (rollout.score.cause, rollout.calls) == ("agent_failed", ())


async def test_a_server_sees_what_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    monkeypatch.setenv("OFFICE_KEY", "another")
    environment = odd(tmp_path, VARIABLES=["OFFICE_KEY"])

    def say(request: ChatRequest) -> ToolCall:
        return call(request, "complete_task" if len(request.messages) > 2 else "tell")

    (rollout,) = await play(environment, ScriptedPolicy(say), 1)
    (told,) = results(rollout)
    assert "OFFICE_KEY" in told.split()
    assert "OPENAI_API_KEY" not in told.split()


@asynccontextmanager
async def writer(replies: list[str]) -> AsyncIterator[tuple[str, list[Any]]]:
    """A model that writes scenarios: its address, and what it was sent."""
    asked: list[Any] = []

    async def answer(request: ChatRequest) -> Completion:
        asked.append(json.loads(request.messages[-1]["content"]))
        return Completion("a-writer", [Choice(replies[min(len(asked), len(replies)) - 1])])

    async with serving(completions_app(answer, list, "the-writer-s-key")) as url:
        yield f"{url}/v1", asked


async def _write(folder: Path) -> str:
    """Run the file as a program; what it ends with."""
    try:
        await asyncio.to_thread(runpy.run_path, str(folder / "mcp_agent.py"), run_name="__main__")
    except SystemExit as end:
        return str(end.code)
    return ""


async def test_scenarios_are_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "the-writer-s-key")
    replies = ["Sure!", '{"tasks": ["Book\\n one.", "Book one.", 7]}', '{"tasks": ["A", "A", "B"]}']
    replies.append('{"tasks": ["B", "C", "D"]}')
    file = tmp_path / "mcp_scenarios.jsonl"
    async with writer(replies) as (address, asked):
        counts = {"TRAINED_ON, HELD_OUT": (2, 1)}
        with_settings("mcp_agent.py", tmp_path, WRITER="a-writer", WRITER_URL=address, **counts)
        file.unlink()
        assert await _write(tmp_path) == ""
        written = file.read_text("utf-8")
        lines = list(map(json.loads, written.splitlines()))
        assert [(one["split"], one["task"]) for one in lines] == [
            ("train", "A"),
            ("train", "B"),
            ("validation", "C"),
        ]
        assert asked[0]["tools"][0]["function"]["name"] == "list_free_rooms"
        assert [one["tasks"] for one in asked] == [[], [], [], ["A", "B"]]
        assert "is there: delete it first" in await _write(tmp_path)
        assert (len(asked), file.read_text("utf-8")) == (4, written)


async def test_no_scenarios_leave_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "the-writer-s-key")
    async with writer(['{"tasks": []}', '["A"]', "[" * 5000, "Sure!"]) as (address, asked):
        with_settings("mcp_agent.py", tmp_path, WRITER="a-writer", WRITER_URL=address)
        (tmp_path / "mcp_scenarios.jsonl").unlink()
        said = await _write(tmp_path)
    assert said == "The model a-writer wrote 0 of 80 tasks: choose another one."
    assert len(asked) == 20
    assert not (tmp_path / "mcp_scenarios.jsonl").exists()
