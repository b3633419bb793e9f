"""Agents of LangGraph and of OpenAI's Agents SDK: their own loops, recorded and trained on.

The frameworks take seconds to import, so the tests that use them do it, and not every process that
collects this file.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from precis.environments.conversations import conversations_of
from precis.environments.show import show_conversation
from precis.environments.trajectories import group_of, put_trajectories
from precis.errors import ConfigError
from precis.llm.server import ChatRequest, Choice, Completion, ToolCall
from precis.records.rollout import Scenario
from precis.records.samples import sampled_in
from precis.rehearsal.endpoint import logprob_entries
from precis.store import FolderStore
from tests.services.patience import patience_s
from tests.support.examples import EXAMPLES, call, example, module_of, play, score_of
from tests.support.repository import ROOT
from tests.support.scripted_policy import Act, Agent, ScriptedPolicy

LANGGRAPH, AGENTS_SDK = "langgraph_agent.py", "openai_agents.py"


def searches(request: ChatRequest) -> ToolCall:
    """Tries one build after the other, and reports the first that fails."""
    tried = sum(message["role"] == "tool" for message in request.messages)
    if str(request.messages[-1]["content"]).endswith("fails."):
        return call(request, "report", build=tried)
    return call(request, "try_build", build=tried + 1)


def settles(request: ChatRequest) -> ToolCall:
    """Hands over to the right desk, looks the order up, and does what its state asks for."""
    module = module_of(example(AGENTS_SDK))
    last = request.messages[-1]
    if last["role"] == "user":
        for desk, text in module.DESKS.items():
            if text.split("{thing}")[1] in last["content"]:
                return call(request, f"transfer_to_{desk}")
    found = re.fullmatch(r"The order is (.+)\.", str(last["content"]))
    if found:
        return call(request, "settle", decision=module.SETTLED[found[1]])
    return call(request, "look_up")


@pytest.mark.parametrize(("name", "say"), [(LANGGRAPH, searches), (AGENTS_SDK, settles)])
async def test_a_framework_s_agent_plays_its_turns_and_is_trained_on(
    name: str, say: Callable[[ChatRequest], ToolCall], tmp_path: Path
) -> None:
    policy = ScriptedPolicy(say)
    rollouts = await play(example(name), policy, 8)
    for rollout in rollouts:
        assert (score_of(rollout).reward, score_of(rollout).success) == (1.0, True)
        assert rollout.metrics["turns"] == len(rollout.calls) > 1
        assert rollout.metrics["illegal"] == 0
    for rollout, trajectory in zip(rollouts, group_of(rollouts).trajectories, strict=True):
        assert len(list(sampled_in(trajectory))) == len(rollout.calls)
    put_trajectories(FolderStore(tmp_path), "m", "train", 1, [rollouts], "m@0")
    assert len(policy.requests) == sum(len(one.calls) for one in rollouts)
    if name == AGENTS_SDK:
        triage, desk = conversations_of(rollouts[0].calls)
        assert [len(triage.calls), len(desk.calls)] == [1, 2]
        assert triage.tools != desk.tools, "who is handed a case has tools of its own"
        shown = show_conversation(rollouts[0])
        assert "transfer" in shown and "settle" in shown


@pytest.mark.parametrize("arguments", ["{", "[1]", "null", "{}", '{"decision": "burn it"}'])
async def test_a_call_that_a_desk_can_t_make_is_answered(arguments: str) -> None:
    def say(request: ChatRequest) -> ToolCall:
        answers = [one for one in request.messages if one["role"] == "assistant"]
        if len(answers) == 1:
            return ToolCall("bad", "settle", arguments)
        if len(answers) == 2:
            return ToolCall("unknown", "cancel", "{}")
        return settles(request)

    (rollout,) = await play(example(AGENTS_SDK), ScriptedPolicy(say), 1)
    assert score_of(rollout).success
    assert rollout.metrics["illegal"] == 2
    results = [one["content"] for one in rollout.calls[-1].messages if one["role"] == "tool"]
    _, bad, unknown, *_ = results
    assert unknown == "Tool 'cancel' not found."
    assert "error" in bad.lower()


@pytest.mark.parametrize("http", [False, True])
@pytest.mark.parametrize("streaming", [False, True])
async def test_whatever_the_agents_sdk_sends_is_answered(http: bool, streaming: bool) -> None:
    import agents

    @agents.function_tool  # type: ignore[untyped-decorator]
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    wanted = agents.ModelSettings(
        tool_choice="required",
        parallel_tool_calls=True,
        include_usage=True,
        top_logprobs=2,
        store=False,
        metadata={"a": "b"},
        verbosity="low",
    )

    async def act(model: Any, _: Scenario) -> float:
        async with AsyncExitStack() as stack:
            client = model.openai_client()
            if http:  # like any program's, which goes to the rollout's address
                url, key = model.inference_base_url, model.inference_api_key
                client = await stack.enter_async_context(
                    openai.AsyncOpenAI(base_url=url, api_key=key)
                )
            asked_for = agents.OpenAIChatCompletionsModel(model.get_inference_name(), client)
            tools: list[Any] = [add]
            agent = agents.Agent("sums", model=asked_for, tools=tools, model_settings=wanted)
            config = agents.RunConfig(tracing_disabled=True)
            run: Any
            if streaming:
                run = agents.Runner.run_streamed(agent, "1, 2, 3 and 4?", run_config=config)
                async for _event in run.stream_events():
                    pass
            else:
                run = await agents.Runner.run(agent, "1, 2, 3 and 4?", run_config=config)
        assert run.final_output == "It is 10 – or so."
        assert run.context_wrapper.usage.output_tokens == 9
        return 1.0

    await _assert_recorded(act)


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize(
    "bound", [{}, {"tool_choice": "any", "parallel_tool_calls": False, "strict": True}]
)
async def test_whatever_langgraph_sends_is_answered(streaming: bool, bound: dict[str, Any]) -> None:
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI
    from langgraph.graph import START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode, tools_condition

    @tool  # type: ignore[untyped-decorator]
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    async def act(model: Any, _: Scenario) -> float:
        async with httpx.AsyncClient() as http:
            policy = ChatOpenAI(
                model=model.get_inference_name(),
                base_url=model.inference_base_url,
                api_key=model.inference_api_key,
                http_async_client=http,
                streaming=streaming,
                stream_usage=True,
            ).bind_tools([add], **bound)

            async def ask(state: MessagesState) -> dict[str, Any]:
                return {"messages": [await policy.ainvoke(state["messages"])]}

            graph = StateGraph(MessagesState)
            graph.add_node("ask", ask)
            graph.add_node("tools", ToolNode([add]))
            graph.add_edge(START, "ask")
            graph.add_conditional_edges("ask", tools_condition)
            graph.add_edge("tools", "ask")
            begun: Any = {"messages": [("user", "1, 2, 3 and 4?")]}
            said = (await graph.compile().ainvoke(begun))["messages"][-1]
        assert said.content == "It is 10 – or so."
        assert said.usage_metadata["output_tokens"] == 3
        return 1.0

    await _assert_recorded(act)


class _Sums(ScriptedPolicy):
    """Makes two calls at once, and then one, with arguments as a model may write them."""

    async def __call__(self, request: ChatRequest) -> Completion:
        self.requests.append(request)
        turn = sum(one["role"] == "assistant" for one in request.messages)
        two = [ToolCall("a", "add", '{"a":1,"b":2}'), ToolCall("b", "add", '{"a": 3,\n "b": 4}')]
        choice = [
            Choice("Let me see – é.", "tool_calls", tool_calls=two),
            Choice("", "tool_calls", tool_calls=[ToolCall("c", "add", '{"b":7,"a":3}')]),
            Choice("It is 10 – or so."),
        ][turn]
        entries = logprob_entries([1, 2, 3], [-0.5] * 3)
        choice = replace(choice, completion_tokens=3, token_ids=[1, 2, 3], logprobs=entries)
        return Completion(self.model, [choice], prompt_ids=[9] * (turn + 1))


async def _assert_recorded(act: Act) -> None:
    [rollout] = await play(Agent(act), _Sums())
    assert rollout.reward == 1.0, rollout.score
    assert [one.token_ids for one in rollout.calls] == [(1, 2, 3)] * 3
    (conversation,) = conversations_of(rollout.calls)
    results = [one["content"] for one in conversation.messages if one["role"] == "tool"]
    assert results == ["3", "7", "10"]


WATCHED = """
import asyncio, atexit, json, os, sys
from pathlib import Path

sought = []
atexit.register(lambda: print(json.dumps(sorted(set(sought)))))


def watch(event, given):
    if event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.connect"):
        host = given[0] if event != "socket.connect" else given[1]
        host = host[0] if isinstance(host, tuple) else host
        if host not in ("127.0.0.1", "localhost", "::1"):
            sought.append(str(host))
            raise ConnectionRefusedError("nobody may leave this machine")


sys.addaudithook(watch)

from tests.support.examples import embedded, play
from precis.environments.python import load_python

rollouts = asyncio.run(play(load_python(sys.argv[1]), embedded(), 2))
assert all(one.calls for one in rollouts), rollouts
if "langgraph" in sys.argv[1]:
    from langchain_core.tracers.langchain import wait_for_all_tracers

    wait_for_all_tracers()
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "switch", "service"),
    [
        (LANGGRAPH, ("enabled=False", "enabled=True"), "api.smith.langchain.com"),
        (AGENTS_SDK, ("tracing_disabled=True", "tracing_disabled=False"), "api.openai.com"),
    ],
)
def test_a_framework_s_telemetry_is_sent_nowhere(
    tmp_path: Path, name: str, switch: tuple[str, str], service: str
) -> None:
    """Even with its keys set; without its switch it would be."""
    variables = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "LANGSMITH_TRACING": "true",
        "LANGCHAIN_TRACING_V2": "true",
        "LANGSMITH_API_KEY": "a-key",
        "OPENAI_API_KEY": "a-key",
    }
    text = (EXAMPLES / name).read_text("utf-8")
    assert text.count(switch[0]) == 1
    traced = tmp_path / name
    traced.write_text(text.replace(*switch), "utf-8")
    sought = []
    for file in (EXAMPLES / name, traced):
        command = [sys.executable, "-c", WATCHED, str(file)]
        done = subprocess.run(
            command, env=variables, capture_output=True, text=True, timeout=patience_s()
        )
        assert done.returncode == 0, done.stderr
        sought.append(json.loads(done.stdout.splitlines()[-1]))
    assert sought[0] == []
    assert service in sought[1]


@pytest.mark.parametrize(
    ("name", "package", "command"),
    [
        (LANGGRAPH, "langgraph.graph", "pip install langgraph langchain-openai"),
        (AGENTS_SDK, "agents", "pip install openai-agents"),
        ("mcp_agent.py", "mcp", "pip install 'mcp>=2.3'"),
    ],
)
def test_without_the_framework_the_command_that_installs_it_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, package: str, command: str
) -> None:
    monkeypatch.delitem(sys.modules, "mcp_session", raising=False)  # the example's own
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError, match=f"run `{command}`"):
        example(name)
