"""The estimate of a text's tokens, before they are counted."""

import math

CHARACTERS_PER_TOKEN = 4
"""Of English prose and of JSON around it; the usual rule for the tokenizers of hosted models."""

_MARGIN = 1 / 3
"""Code, names and other scripts take more tokens than prose."""

BYTES_PER_TOKEN_MIN = 3
"""Fewer bytes than a token of any usual script has in a usual tokenizer."""


def estimate_tokens(characters: int) -> float:
    """Return the tokens that a text of so many characters is likely to take; for forecasts."""
    return characters / CHARACTERS_PER_TOKEN


def estimate_tokens_with_margin(characters: int) -> int:
    """Return the tokens to keep free for it, with a margin; for limits and budgets."""
    return round(estimate_tokens(characters) * (1 + _MARGIN))


def estimate_most_tokens(text: str) -> int:
    """Return the tokens that a text takes in any script, rather too many than too few; where a text
    that does not fit would be refused."""
    return math.ceil(len(text.encode()) / BYTES_PER_TOKEN_MIN)
