"""The random baseline of an agent: any of the calls that its tools allow."""

import hashlib
import json
from collections.abc import Sequence

from precis.benchmark.contender import ContenderSpec
from precis.benchmark.measure import Attempt
from precis.llm.server import ChatRequest, Choice, Completion, ToolCall, callable_tools
from precis.rehearsal.tool_calls.options import list_options

RANDOM = "random"


async def play_randomly(asked: ChatRequest) -> Completion:
    """Answer with one of the request's options, chosen by the request and its seed.

    Raises:
        ApiError: 400, if the options can't be listed.
    """
    options = list_options(asked.messages, callable_tools(asked.tools, asked.tool_choice))
    decisive = json.dumps([asked.messages, asked.tools, asked.seed], sort_keys=True)
    picked = int.from_bytes(hashlib.sha256(decisive.encode()).digest()[:8]) % len(options)
    option = options[picked]
    calls = []
    if option.name:
        calls.append(ToolCall(f"call_{len(asked.messages)}", option.name, option.content))
    text = "" if calls else option.content
    return Completion(asked.model, [Choice(text, completion_tokens=1, tool_calls=calls)])


def found_no_options(contender: ContenderSpec, attempts: Sequence[Attempt]) -> bool:
    """Return whether the random player never had options to choose from."""
    if contender.contender.model != RANDOM:
        return False
    return not any(one.rollout.calls for one in attempts)
