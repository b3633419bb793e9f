"""The base model's tokenizer with its chat template, and the calls of tools in what it has written,
in the form that most open models have learned."""

import json
import re
from functools import lru_cache, partial
from typing import Any

from precis.errors import ConfigError
from precis.llm.server import ToolCall

BEGIN = "<tool_call>"
"""The beginning of a call in a chat template of Hermes' form, as in those of Qwen2.5 and Qwen3."""
_CALL = re.compile(r"<tool_call>\s*(.*?)\s*(?:</tool_call>|$)", re.DOTALL)


def read_calls(text: str, turn: int) -> tuple[str, list[ToolCall]]:
    """Return an answer's text beside its calls, and the calls; none where one of them can't be
    read, as vLLM's parser does. The turn makes their ids differ within a conversation."""
    calls = []
    for number, found in enumerate(_CALL.findall(text)):
        try:
            made = json.loads(found)
            arguments = json.dumps(made["arguments"], ensure_ascii=False)
            call = ToolCall(f"call_{turn}_{number}", str(made["name"]), arguments)
            f"{call.name}{arguments}".encode()  # half a character can't be sent
            calls.append(call)
        except (ValueError, KeyError, TypeError, RecursionError):
            return text, []
    return (text.partition(BEGIN)[0].strip() if calls else text), calls


@lru_cache(maxsize=4)
def load_tokenizer(name: str) -> Any:
    """Return Transformers' tokenizer of the Hub, or of a folder.

    A model that may think before it answers is asked not to: the answer's words count. A
    ConfigError says that there is no tokenizer, or it has no chat template.
    """
    from transformers import AutoTokenizer  # seconds to import
    from transformers.utils import logging

    logging.set_verbosity_error()  # else it warns of a missing PyTorch
    try:
        tokenizer = AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ConfigError(
            f"The tokenizer of {name!r} can't be loaded: {reason}",
            "Name one of the Hub, or a folder here, in trainer.tokenizer; for a gated one set "
            "HF_TOKEN.",
        ) from error
    if not tokenizer.chat_template or tokenizer.eos_token_id is None:
        raise ConfigError(
            f"The tokenizer of {name!r} has no chat template, or no end of an answer.",
            "Take an instruction-tuned base model, or name its tokenizer in trainer.tokenizer.",
        )
    # Templates that know no thinking pass it over.
    rendering = partial(tokenizer.apply_chat_template, enable_thinking=False)
    tokenizer.apply_chat_template = rendering
    return tokenizer
