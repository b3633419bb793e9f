"""A tiny environment without a reward: pick words from a list until you have the one asked for.

Its process may die between two words.
"""

import json
from typing import Any

from precis.processes.kill_points import reached

WORDS = ["ant", "bee", "cat", "dog"]
WORD = {"type": "string", "enum": WORDS}
SCHEMA = {"type": "object", "properties": {"word": WORD}, "required": ["word"]}
LOOK_UP = {"type": "function", "function": {"name": "look_up", "parameters": SCHEMA}}


def scenarios(split: str) -> list[dict[str, Any]]:
    numbers = range(8) if split == "train" else range(8, 11)
    return [{"id": f"word-{number}", "word": WORDS[number % len(WORDS)]} for number in numbers]


async def rollout(model: Any, scenario: Any) -> None:
    messages: list[Any] = [{"role": "user", "content": f"Find the {scenario['word']}."}]
    for turn in range(2):
        reply = await model.openai_client().chat.completions.create(
            model=model.get_inference_name(), messages=messages, tools=[LOOK_UP]
        )
        message = reply.choices[0].message.model_dump(exclude_none=True)
        messages.append(message)
        if turn == 0:
            reached("in mid game", await model.get_step())
        call = message["tool_calls"][0]
        found = json.loads(call["function"]["arguments"])["word"]
        parts = [{"type": "text", "text": f"A {found}."}]  # as some frameworks send them
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": parts})
