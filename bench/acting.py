"""Games and a chat template for a language model that learns Tic Tac Toe by tool calls.

    .venv/bin/python bench/acting.py FOLDER --base-model MODEL

The game is `examples/tic_tac_toe.py`. A player that takes any free cell plays the games to imitate:
their calls are legal, but show no skill. The model in the folder gets a chat template with tools. A
run uses both: `precis train examples/tic_tac_toe.py` with the settings `trainer.base_model:
FOLDER/model` and `warm_start: {source: file, file: FOLDER/games.jsonl}`.
"""

import asyncio
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
from openai.types.chat import ChatCompletion

from precis.environments.python import load_python
from precis.records.rollout import Scenario

GAME = "examples/tic_tac_toe.py"
_SHOWN = range(100_000, 100_400)
"""Seeds of the games to imitate; a run draws none of them."""

Json = dict[str, Any]

TEMPLATE = """{%- if tools -%}
<|im_start|>system
{{ messages[0]['content'] }}

# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>{% for tool in tools %}{{ '\\n' + (tool | tojson) }}{% endfor %}{{ '\\n' }}</tools>

For each function call, return a json object with function name and arguments within \
<tool_call></tool_call> XML tags:
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call><|im_end|>
{% set said = messages[1:] %}
{%- else -%}
{% set said = messages %}
{%- endif -%}
{%- for message in said -%}
<|im_start|>{{ 'user' if message['role'] == 'tool' else message['role'] }}
{% if message['role'] == 'tool' -%}
<tool_response>
{{ message['content'] }}
</tool_response>
{%- elif message['tool_calls'] -%}
{%- for call in message['tool_calls'] -%}
<tool_call>
{"name": "{{ call['function']['name'] }}", "arguments": \
{{ call['function']['arguments'] if call['function']['arguments'] is string \
else call['function']['arguments'] | tojson }}}
</tool_call>
{%- endfor -%}
{%- else -%}
{{ message['content'] }}
{%- endif -%}
<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}
<|im_start|>assistant
{% endif -%}"""
"""Calls as Hermes and Qwen2.5 write them, with a system message first where there are tools. The
template of SmolLM2-135M-Instruct has no tools."""


def main(
    folder: Annotated[Path, typer.Argument(help="Of the model and the games.")],
    base_model: Annotated[str, typer.Option(help="A folder with Transformers' files.")],
) -> None:
    """Write the model with the new template, and the games to imitate."""
    model = folder / "model"
    model.mkdir(parents=True, exist_ok=True)
    for file in Path(base_model).resolve().iterdir():
        (model / file.name).unlink(missing_ok=True)
        (model / file.name).symlink_to(file)
    own = json.loads((model / "tokenizer_config.json").read_text())
    (model / "tokenizer_config.json").unlink()
    (model / "tokenizer_config.json").write_text(json.dumps({**own, "chat_template": TEMPLATE}))
    write_games(folder / "games.jsonl", _SHOWN)


def write_games(file: Path, seeds: Sequence[int]) -> None:
    """Write one game of a random player for each seed, and print the number of calls."""
    game = load_python(GAME)
    lines = []
    calls = 0
    for seed in seeds:
        player = _RandomPlayer(random.Random(seed))
        scenario = Scenario(f"game-{seed}", {"seed": seed})
        asyncio.run(game.rollout(player, scenario))  # type: ignore[arg-type]
        asked, tools, answer = player.calls[-1]
        calls += len(player.calls)
        shown = {"id": scenario.id, "tools": tools, "messages": [*asked, answer]}
        lines.append(json.dumps(shown))
    file.write_text("\n".join(lines))
    print(f"{calls} calls of {len(lines)} games to imitate; the last game:\n{lines[-1]}")


@dataclass
class _RandomPlayer:
    """A substitute for a model: calls `play` with a random free cell of the board."""

    chance: random.Random
    calls: list[tuple[list[Json], list[Json], Json]] = field(default_factory=list)

    def openai_client(self) -> Any:
        return self

    @property
    def chat(self) -> Any:
        return self

    @property
    def completions(self) -> Any:
        return self

    def get_inference_name(self) -> str:
        return "random"

    async def create(self, model: str, messages: list[Json], tools: list[Json]) -> ChatCompletion:
        free = [cell for cell in messages[-1]["content"] if cell.isdigit()]
        arguments = json.dumps({"cell": int(self.chance.choice(free))})
        function = {"name": "play", "arguments": arguments}
        call = {"id": f"call_{len(messages)}", "type": "function", "function": function}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        self.calls.append((list(messages), tools, message))
        choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
        known = {"id": "random", "object": "chat.completion", "created": 0, "model": model}
        return ChatCompletion.model_validate({**known, "choices": [choice]})


if __name__ == "__main__":
    typer.run(main)
