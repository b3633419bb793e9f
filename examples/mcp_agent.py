"""An agent with the tools of any MCP server, scored by RULER.

make rehearse ENVIRONMENT=examples/mcp_agent.py

For your own server set SERVER, SCENARIOS and WRITER; `python examples/mcp_agent.py` has that model
write the scenarios, once.
"""

import asyncio
import json
import sys
from pathlib import Path

from mcp_session import connect, list_tools
from mcp_writer import save, write_tasks

from precis.environments.protocol import Nouns

HERE = Path(__file__).resolve().parent
SERVER = [sys.executable, str(HERE / "mcp_server.py")]
"""A program with its arguments, which speaks over stdio and is started for each rollout; or the URL
of a server of streamable HTTP, which all rollouts share."""
VARIABLES = []
"""The environment variables passed to such a program, beside PATH, HOME and the like."""
TOKEN = ""
"""The environment variable with the bearer token of such a URL."""
SCENARIOS = str(HERE / "mcp_scenarios.jsonl")
files = ["mcp_server.py", "mcp_scenarios.jsonl"]
"""Files to copy with this one to workers and to a managed job's machine, beside its imports."""
WRITER = ""
"""The model that writes them, called with OPENAI_API_KEY at WRITER_URL."""
WRITER_URL = "https://openrouter.ai/api/v1"
TRAINED_ON, HELD_OUT = 64, 16
TURNS_MAX = 10
START_S, TOOL_S = 60, 30
"""Time limits in seconds for a server's first answer, and for a tool's call."""
RESULT_MAX = 8000
"""Characters of a tool's result that the policy sees."""

score = "ruler"
rubric = "The task is done, as the tools' results show, and in few calls."
nouns = Nouns("attempt", "attempts", "task", "tasks")

RULES = "Do the task with the tools. When it is done, or can't be done, call complete_task."
ANSWER = {"answer": {"type": "string", "description": "What the user asked to know."}}
COMPLETE = {
    "type": "function",
    "function": {
        "name": "complete_task",
        "description": "End the task.",
        "parameters": {"type": "object", "properties": ANSWER},
    },
}


def scenarios(split):
    with open(SCENARIOS, encoding="utf-8") as lines:
        return [one for one in map(json.loads, lines) if one["split"] == split]


async def rollout(model, scenario):
    task = scenario["task"]
    messages = [{"role": "system", "content": RULES}, {"role": "user", "content": task}]
    async with connect(SERVER, VARIABLES, TOKEN, START_S) as session:
        tools, names = await list_tools(session)
        for _ in range(TURNS_MAX):
            reply = await model.openai_client().chat.completions.create(
                model=model.get_inference_name(), messages=messages, tools=[*tools, COMPLETE]
            )
            message = reply.choices[0].message.model_dump(exclude_none=True)
            messages.append(message)
            calls = message.get("tool_calls") or ()
            if any(call["function"]["name"] == "complete_task" for call in calls):
                return
            for call in calls:
                result = await answer(session, names, call["function"])
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
            if not calls:
                messages.append({"role": "user", "content": "Call a tool, or complete_task."})


async def answer(session, names, function):
    """Return a tool's result, or why there is none."""
    try:
        given = json.loads(function["arguments"] or "{}")
        json.dumps(given, ensure_ascii=False).encode()  # half a character can't be sent
        if not isinstance(given, dict):
            raise ValueError("its arguments are no object")
        if function["name"] not in names:
            raise ValueError(f"there is no tool {function['name']}")
    except (ValueError, RecursionError) as error:
        return f"This call can't be made: {error}."
    try:
        result = await session.call_tool(names[function["name"]], given, TOOL_S)
    except Exception as error:
        text = f"The tool failed: {error}"
    else:
        shown = [getattr(one, "resource", one) for one in result.content]
        text = "\n".join(getattr(one, "text", "(it has no text)") for one in shown) or "(nothing)"
    return text if len(text) <= RESULT_MAX else f"{text[:RESULT_MAX]} … (the rest is left out)"


async def checks():
    try:
        async with connect(SERVER, VARIABLES, TOKEN, START_S) as session:
            tools, _ = await list_tools(session)
    except Exception as error:
        return [str(error)]
    return [] if tools else ["The MCP server has no tools."]


async def write():
    async with connect(SERVER, VARIABLES, TOKEN, START_S) as session:
        tools, _ = await list_tools(session)
    return await write_tasks(tools, WRITER, WRITER_URL, TRAINED_ON + HELD_OUT)


if __name__ == "__main__":
    if Path(SCENARIOS).exists():
        sys.exit(f"{SCENARIOS} is there: delete it first, to have other scenarios written.")
    save(SCENARIOS, asyncio.run(write()), TRAINED_ON)
