"""How many tokens a text takes, before anybody has counted them."""

CHARACTERS_PER_TOKEN = 4
"""Of English prose and of JSON around it; the usual rule for the tokenizers of hosted models."""

_MARGIN = 1 / 3
"""Code, names and other scripts take more tokens than prose."""


def estimate_tokens(characters: int) -> float:
    """The tokens that a text of so many characters is likely to take; for forecasts."""
    return characters / CHARACTERS_PER_TOKEN


def estimate_tokens_with_margin(characters: int) -> int:
    """The tokens to keep free for it, with a margin; for limits and budgets."""
    return round(estimate_tokens(characters) * (1 + _MARGIN))
