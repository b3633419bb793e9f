"""Sampled answers on their way to the trainer."""

import json

import pytest
from openai.types.chat.chat_completion import Choice

from precis.trainer.choices import decode_choice, encode_choice


def answer(tokens: int = 3, **logprobs: object) -> Choice:
    sampled = [
        {
            "token": f"token_id:{number}",
            "logprob": -0.1 - number / 3,
            "bytes": [116, 111],
            "top_logprobs": [],
            **logprobs,
        }
        for number in range(tokens)
    ]
    return Choice.model_validate(
        {
            "finish_reason": "stop",
            "index": 0,
            "message": {"role": "assistant", "content": "Three words. Here."},
            "logprobs": {"content": sampled},
        }
    )


def test_tokens_and_their_probabilities_arrive_as_they_were_sampled() -> None:
    sent = answer()
    arrived = decode_choice(json.loads(json.dumps(encode_choice(sent))))
    assert sent.logprobs and sent.logprobs.content
    assert arrived.logprobs and arrived.logprobs.content
    pairs = [(one.token, one.logprob) for one in arrived.logprobs.content]
    assert pairs == [(one.token, one.logprob) for one in sent.logprobs.content]
    assert arrived.message.content == sent.message.content
    assert arrived.finish_reason == "stop"


def test_what_else_was_said_or_not_of_a_token_is_kept() -> None:
    sent = answer(top_logprobs=[{"token": "a", "logprob": -2.0, "bytes": None}])
    assert decode_choice(encode_choice(sent)) == sent
    sent.logprobs = None
    assert decode_choice(encode_choice(sent)) == sent


def test_a_token_without_its_probability_is_refused() -> None:
    encoded = encode_choice(answer())
    encoded["sampled"]["logprobs"].pop()
    with pytest.raises(ValueError, match="zip"):
        decode_choice(encoded)
