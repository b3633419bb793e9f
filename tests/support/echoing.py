"""A tiny environment with a tool: press the colour that is shown, twice."""

import json
from typing import Any

from precis.environments.protocol import Score

COLOURS = ["red", "green", "blue"]
COLOUR = {"type": "string", "enum": COLOURS}
SCHEMA = {"type": "object", "properties": {"colour": COLOUR}, "required": ["colour"]}
PRESS: Any = {"type": "function", "function": {"name": "press", "parameters": SCHEMA}}


def scenarios(split: str) -> list[dict[str, Any]]:
    numbers = range(8) if split == "train" else range(8, 11)
    return [{"id": f"lamp-{number}", "number": number} for number in numbers]


async def rollout(model: Any, scenario: Any) -> Score:
    messages: list[Any] = []
    right = 0
    for turn in range(2):
        colour = COLOURS[(scenario["number"] + turn) % len(COLOURS)]
        messages.append({"role": "user", "content": f"The lamp is {colour}."})
        reply = await model.openai_client().chat.completions.create(
            model=model.get_inference_name(), messages=messages, tools=[PRESS]
        )
        message = reply.choices[0].message.model_dump(exclude_none=True)
        messages.append(message)
        call = message["tool_calls"][0]
        right += json.loads(call["function"]["arguments"])["colour"] == colour
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": "Pressed."})
    return Score(right / 2, right == 2)
