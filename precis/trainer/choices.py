"""A sampled answer as JSON.

An answer that carries its tokens (`precis.records.samples`) carries its whole prompt too, and
with each turn of a rollout the prompt repeats all before: of each prompt only the end is sent that
the sequence before it does not hold.
"""

from collections.abc import Sequence
from typing import Any

from openai.types.chat.chat_completion import Choice

Json = dict[str, Any]

_PROMPT = "prompt_token_ids"
_TOKENS = "token_ids"


def encode_choice(choice: Choice, before: Sequence[int] = ()) -> Json:
    """Return an answer as JSON.

    Args:
        before: the tokens that its prompt is likely to begin with.
    """
    encoded = choice.model_dump(mode="json")
    prompt = (choice.model_extra or {}).get(_PROMPT)
    if prompt is not None:
        shared = _common_length(prompt, before)
        encoded[_PROMPT] = [shared, prompt[shared:]]
    return encoded


def decode_choice(encoded: Json, before: Sequence[int] = ()) -> Choice:
    """Return the answer that `encode_choice` was given; a ValueError says that it is none."""
    if _PROMPT in encoded:
        shared, rest = encoded[_PROMPT]
        if shared > len(before):
            raise ValueError(f"A prompt repeats {shared} tokens of {len(before)}.")
        encoded = {**encoded, _PROMPT: [*before[:shared], *rest]}
    return Choice.model_validate(encoded)


def sequence_of(choice: Choice) -> list[int]:
    """Return prompt and answer of a choice that carries its tokens; empty where it does not."""
    carried = choice.model_extra or {}
    return [*(carried.get(_PROMPT) or ()), *(carried.get(_TOKENS) or ())]


def _common_length(ours: Sequence[int], theirs: Sequence[int]) -> int:
    if ours[: len(theirs)] == theirs:
        return len(theirs)
    for place, (one, other) in enumerate(zip(ours, theirs, strict=False)):
        if one != other:
            return place
    return min(len(ours), len(theirs))
