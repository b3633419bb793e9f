"""An answer with its tokens, as a request for them has it."""

from typing import Any

from openai.types.chat import ChatCompletion
from openai.types.chat.chat_completion import Choice

from precis.records.samples import Sampled, with_tokens


def sampled_choice(answer: ChatCompletion) -> Choice:
    """The choice of an answer that was asked for with log probabilities and token ids."""
    choice = answer.choices[0]
    assert choice.logprobs is not None and choice.logprobs.content is not None
    prompt: Any = (answer.model_extra or {})["prompt_token_ids"]
    tokens: Any = (choice.model_extra or {})["token_ids"]
    logprobs = [one.logprob for one in choice.logprobs.content]
    plain = choice.model_dump(mode="json", exclude={"logprobs"})
    return with_tokens(plain, Sampled(prompt, tokens, logprobs))


SAMPLED: Any = {"logprobs": True, "extra_body": {"return_token_ids": True}}
"""Options of such a request."""
