"""A LangGraph agent that tries builds of a program to find the first that fails.

make rehearse ENVIRONMENT=examples/langgraph_agent.py
"""

import json
import random
from typing import Literal

import httpx

from precis.environments.protocol import Nouns, Score

try:
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI
    from langgraph.errors import GraphRecursionError
    from langgraph.graph import END, START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode
    from langsmith import tracing_context
except ImportError as error:
    command = "pip install langgraph langchain-openai"
    raise ImportError(f"LangGraph is missing: run `{command}`") from error

TURNS_MAX = 8
Build = Literal[1, 2, 3, 4, 5, 6, 7]

nouns = Nouns("search", "searches", "fault", "faults", success="found")

RULES = """One of the builds 1 to 7 was the first that fails; all before it work, all after it fail.
Find it: call try_build on builds, and report it. Make one call at a time."""


def scenarios(split):
    seeds = range(200) if split == "train" else range(1000, 1050)
    return [{"id": f"fault-{seed}", "first": random.Random(seed).randint(1, 7)} for seed in seeds]


async def rollout(model, scenario):
    reported = []
    messages = [("system", RULES), ("user", "The tests fail. Since which build?")]
    # Nothing is sent to LangSmith, whatever the environment variables say.
    with tracing_context(enabled=False):
        async with httpx.AsyncClient() as http:
            graph = graph_of(model, http, scenario["first"], reported)
            # A turn is two steps of the graph: the policy's and the tools'.
            steps = graph.astream(
                {"messages": messages}, {"recursion_limit": 2 * TURNS_MAX}, stream_mode="values"
            )
            try:
                async for state in steps:
                    said = state["messages"]
            except GraphRecursionError:
                pass
    refused = [one for one in said[2:] if isinstance(one, HumanMessage)]
    turns = sum(isinstance(one, AIMessage) for one in said) + len(refused)
    illegal = sum(isinstance(one, ToolMessage) and one.status == "error" for one in said)
    illegal += len(refused) + (isinstance(said[-1], AIMessage) and not reported)
    right = reported == [scenario["first"]]
    return Score(float(right), right, {"turns": turns, "illegal": illegal})


def graph_of(model, http, first, reported):
    """Return the agent: LangGraph's loop of a model and its tools."""

    @tool
    def try_build(build: Build) -> str:
        """Run the tests on a build."""
        return f"Build {build} {'works' if build < first else 'fails'}."

    @tool
    def report(build: Build) -> str:
        """End the search: this build was the first that fails."""
        reported.append(build)
        return "Thank you."

    policy = ChatOpenAI(
        model=model.get_inference_name(),
        base_url=model.inference_base_url,
        api_key=model.inference_api_key,
        http_async_client=http,
        max_retries=0,
    ).bind_tools([try_build, report])

    async def ask(state):
        try:
            message = await policy.ainvoke(state["messages"])
            json.dumps(message.tool_calls, ensure_ascii=False).encode()
            return {"messages": [message]}
        except ValueError:
            # LangChain can't hold arguments that are not an object, nor resend half a character.
            return {"messages": [HumanMessage("The arguments of your call can't be read.")]}

    def refuse(state):
        """Answer the calls that are not valid JSON, which never reach the tools."""
        answers = []
        for call in getattr(state["messages"][-1], "invalid_tool_calls", ()):
            said = f"This call can't be made: {call['error'] or 'its arguments are no object.'}"
            answers.append(ToolMessage(said, tool_call_id=call["id"], status="error"))
        return {"messages": answers}

    def choose(state):
        last = state["messages"][-1]
        if isinstance(last, HumanMessage):
            return ["refuse"]
        chosen = [("tools", last.tool_calls), ("refuse", last.invalid_tool_calls)]
        return [name for name, calls in chosen if calls] or END

    def end_or_ask(state):
        return END if reported else "ask"

    graph = StateGraph(MessagesState)
    graph.add_node("ask", ask)
    graph.add_node("tools", ToolNode([try_build, report]))
    graph.add_node("refuse", refuse)
    graph.add_edge(START, "ask")
    graph.add_conditional_edges("ask", choose, ["tools", "refuse", END])
    graph.add_conditional_edges("tools", end_or_ask, ["ask", END])
    graph.add_conditional_edges("refuse", end_or_ask, ["ask", END])
    return graph.compile()
