"""The prompt of a model's training, without which an adapter is worth little.

An agent has its own prompts; its file only has the parser of its tool calls.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from precis.environments.summaries.prompt import summary_messages, summary_tokens_max
from precis.models.record import TrainingRecord
from precis.text import WORDS_MAX

PROMPT_FILE = "prompt.json"
DOCUMENT = "{document}"
"""The placeholder of the document's text in the messages of a prompt file."""


def words_of(record: TrainingRecord | None) -> int:
    """Return the longest summary of a model's prompt, in words."""
    return record.words_max if record else WORDS_MAX


def prompt_of(record: TrainingRecord | None) -> dict[str, Any]:
    """Return the messages with a placeholder for the document, and the benchmark's greedy
    sampling."""
    sampling: dict[str, Any] = {"temperature": 0.0}
    if record and record.enable_thinking is not None:
        sampling["chat_template_kwargs"] = {"enable_thinking": record.enable_thinking}
    if record and record.is_agent:
        return {
            "environment": record.environment,
            "tool_call_parser": record.tool_call_parser,
            **sampling,
        }
    words_max = words_of(record)
    return {
        **sampling,
        "messages": summary_messages(DOCUMENT, words_max),
        "document": DOCUMENT,
        "words_max": words_max,
        "max_tokens": summary_tokens_max(words_max),
    }


def prompt_in(folder: Path) -> dict[str, Any]:
    """Return the prompt of an exported model, as `prompt_of`; empty if it can't be read."""
    try:
        return dict(json.loads((folder / PROMPT_FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


def options_of(prompt: Mapping[str, Any]) -> list[str]:
    """Return vLLM's options for a prompt: an agent's calls of tools, and its chat template's."""
    options = []
    parser = prompt.get("tool_call_parser")
    if parser:
        options = ["--enable-auto-tool-choice", "--tool-call-parser", str(parser)]
    template = prompt.get("chat_template_kwargs")
    if template:
        options += ["--default-chat-template-kwargs", json.dumps(template)]
    return options


def write_prompt(folder: Path, record: TrainingRecord | None) -> None:
    content = json.dumps(prompt_of(record), ensure_ascii=False, indent=1)
    (folder / PROMPT_FILE).write_text(f"{content}\n", encoding="utf-8")
