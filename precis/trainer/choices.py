"""A sampled answer as JSON, short: of each token what was sampled, and how likely it was.

An answer that carries its tokens (`precis.records.samples`) carries its whole prompt too, and
with each turn of a rollout the prompt repeats all before: of each prompt only the end is sent that
the sequence before it does not hold.

OpenAI's log probabilities are an object a token with the token's bytes. 40 summaries are 18,000 of
them, and dumping and sending those took a second of each step.
"""

from collections.abc import Sequence
from typing import Any

from openai.types.chat.chat_completion import Choice

Json = dict[str, Any]

_SAMPLED = "sampled"
_PROMPT = "prompt_token_ids"
_TOKENS = "token_ids"


def encode_choice(choice: Choice, before: Sequence[int] = ()) -> Json:
    """Return an answer as JSON; the bytes of its tokens are left out.

    Args:
        before: the tokens that its prompt is likely to begin with.
    """
    prompt = (choice.model_extra or {}).get(_PROMPT)
    if prompt is not None:
        shared = _common_length(prompt, before)
        return {**choice.model_dump(mode="json"), _PROMPT: [shared, prompt[shared:]]}
    tokens = choice.logprobs.content if choice.logprobs else None
    if not tokens or any(token.top_logprobs for token in tokens):
        return choice.model_dump(mode="json")
    sampled = {
        "tokens": [token.token for token in tokens],
        "logprobs": [token.logprob for token in tokens],
    }
    return {**choice.model_dump(mode="json", exclude={"logprobs"}), _SAMPLED: sampled}


def decode_choice(encoded: Json, before: Sequence[int] = ()) -> Choice:
    """Return the answer that `encode_choice` was given; a ValueError says that it is no answer, or
    has not as many tokens as log probabilities."""
    if _PROMPT in encoded:
        shared, rest = encoded[_PROMPT]
        if shared > len(before):
            raise ValueError(f"A prompt repeats {shared} tokens of {len(before)}.")
        return Choice.model_validate({**encoded, _PROMPT: [*before[:shared], *rest]})
    if _SAMPLED not in encoded:
        return Choice.model_validate(encoded)
    plain = {name: value for name, value in encoded.items() if name != _SAMPLED}
    sampled = encoded[_SAMPLED]
    pairs = zip(sampled["tokens"], sampled["logprobs"], strict=True)
    content = [{"token": token, "logprob": value, "top_logprobs": []} for token, value in pairs]
    return Choice.model_validate({**plain, "logprobs": {"content": content}})


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
