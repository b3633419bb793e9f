"""Estimates of a text's tokens."""

import math

CHARACTERS_PER_TOKEN = 4
"""For English prose and JSON around it; the usual rule for the tokenizers of hosted models."""

_MARGIN = 1 / 3
"""Code, names and other scripts take more tokens than prose."""

BYTES_PER_TOKEN_MIN = 3
"""A lower bound for tokens of common scripts in common tokenizers."""


def estimate_tokens(characters: int) -> float:
    """Return the likely tokens of a text of this many characters; for forecasts."""
    return characters / CHARACTERS_PER_TOKEN


def estimate_tokens_with_margin(characters: int) -> int:
    """Return the tokens to reserve for it, with a margin; for limits and budgets."""
    return round(estimate_tokens(characters) * (1 + _MARGIN))


def estimate_most_tokens(text: str) -> int:
    """Return an upper estimate of a text's tokens in any script, for requests that would be refused
    if too long."""
    return math.ceil(len(text.encode()) / BYTES_PER_TOKEN_MIN)
