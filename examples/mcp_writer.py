"""Scenarios for `mcp_agent.py`, written by a model that sees the server's tools."""

import json
import os
import sys
from pathlib import Path

import openai

RULES = """You write tasks for an agent with the tools that you are given as JSON, beside the tasks
that there are. Write others: what a user would ask for, each possible with these tools alone, some
in one call and some in several. Reply {"tasks": ["…", "…"]}, with as many as `count` says."""
AT_ONCE, REQUESTS_MAX = 20, 20


async def write_tasks(tools, model, url, count):
    """Return `count` tasks; exit the program if the model writes fewer."""
    if not os.environ.get("OPENAI_API_KEY"):
        sys.exit(f"The model {model} needs a key: set OPENAI_API_KEY.")
    tasks = []
    try:
        async with openai.AsyncOpenAI(base_url=url, timeout=300) as client:
            for _ in range(REQUESTS_MAX):
                missing = min(AT_ONCE, count - len(tasks))
                given = {"tools": tools, "tasks": tasks, "count": missing}
                tasks = [*tasks, *await ask(client, model, given)]
                if len(tasks) == count:
                    return tasks
    except openai.OpenAIError as error:
        sys.exit(f"The model {model} at {url} can't be asked: {type(error).__name__}.")
    sys.exit(f"The model {model} wrote {len(tasks)} of {count} tasks: choose another one.")


async def ask(client, model, given):
    """Return new tasks; none if the reply can't be read."""
    asked = json.dumps(given)
    messages = [{"role": "system", "content": RULES}, {"role": "user", "content": asked}]
    reply = await client.chat.completions.create(
        model=model, messages=messages, response_format={"type": "json_object"}
    )
    try:
        written = json.loads(reply.choices[0].message.content)["tasks"]
        tasks = dict.fromkeys(" ".join(one.split()) for one in written)
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        return []
    fresh = [one for one in tasks if one and one not in given["tasks"]]
    return fresh[: given["count"]]


def save(file, tasks, trained_on):
    """Write the tasks as scenarios; the first ones are trained on, the rest held out."""
    lines = []
    for number, task in enumerate(tasks, 1):
        split = "train" if number <= trained_on else "validation"
        lines.append(json.dumps({"id": f"task-{number}", "split": split, "task": task}))
    Path(file).write_text("\n".join(lines) + "\n", "utf-8")
    print(f"{file} has {trained_on} tasks to train on, and {len(tasks) - trained_on} held out.")
