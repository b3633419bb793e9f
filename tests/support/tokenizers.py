"""A tokenizer without a vocabulary."""

from typing import Any


class Tokenizer:
    """A token a character of each message, behind one for its role; counts what it is asked."""

    eos_token_id = 9

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, text: str, *, add_special_tokens: bool) -> dict[str, list[int]]:
        return {"input_ids": [0] * add_special_tokens + list(map(ord, text))}

    def apply_chat_template(self, messages: Any, *, add_generation_prompt: bool) -> list[int]:
        self.asked += 1
        ids = [id for one in messages for id in (1, *map(ord, one["content"]))]
        return [*ids, 2] if add_generation_prompt else ids
