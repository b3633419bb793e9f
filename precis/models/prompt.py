"""The prompt of a model's training, without which an adapter is worth little.

An agent has its own prompts; its file only has the parser of its tool calls.
"""

import json
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
    if record and record.is_agent:
        return {
            "environment": record.environment,
            "tool_call_parser": record.tool_call_parser,
            "temperature": 0.0,
        }
    words_max = words_of(record)
    return {
        "messages": summary_messages(DOCUMENT, words_max),
        "document": DOCUMENT,
        "words_max": words_max,
        "temperature": 0.0,
        "max_tokens": summary_tokens_max(words_max),
    }


def parser_in(folder: Path) -> str:
    """Return the parser of an exported agent's tool calls; empty for a summarizer."""
    try:
        prompt = json.loads((folder / PROMPT_FILE).read_text(encoding="utf-8"))
        return str(prompt.get("tool_call_parser", ""))
    except (OSError, ValueError, AttributeError):
        return ""


def write_prompt(folder: Path, record: TrainingRecord | None) -> None:
    content = json.dumps(prompt_of(record), ensure_ascii=False, indent=1)
    (folder / PROMPT_FILE).write_text(f"{content}\n", encoding="utf-8")
