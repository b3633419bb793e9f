"""A sampled answer as JSON, short: of each token what was sampled, and how likely it was.

The answer of a language model has a log probability for each token, in an object of its own with
the token's bytes: 40 summaries are 18,000 objects, and dumping and sending those took a second of
each step.
"""

from typing import Any

from openai.types.chat.chat_completion import Choice

Json = dict[str, Any]

_SAMPLED = "sampled"


def encode_choice(choice: Choice) -> Json:
    """An answer as JSON; the bytes of its tokens are left out."""
    tokens = choice.logprobs.content if choice.logprobs else None
    if not tokens or any(token.top_logprobs for token in tokens):
        return choice.model_dump(mode="json")
    sampled = {
        "tokens": [token.token for token in tokens],
        "logprobs": [token.logprob for token in tokens],
    }
    return {**choice.model_dump(mode="json", exclude={"logprobs"}), _SAMPLED: sampled}


def decode_choice(encoded: Json) -> Choice:
    """The inverse of `encode_choice`.

    Raises:
        ValueError: it is no answer, or has not as many tokens as log probabilities.
    """
    if _SAMPLED not in encoded:
        return Choice.model_validate(encoded)
    plain = {name: value for name, value in encoded.items() if name != _SAMPLED}
    sampled = encoded[_SAMPLED]
    pairs = zip(sampled["tokens"], sampled["logprobs"], strict=True)
    content = [{"token": token, "logprob": value, "top_logprobs": []} for token, value in pairs]
    return Choice.model_validate({**plain, "logprobs": {"content": content}})
