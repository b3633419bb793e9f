"""Hosted models that can be named without more: where each is served, and how it is asked."""

from collections.abc import Mapping

from precis.config import ContenderConfig, Hosted

PRESETS: Mapping[Hosted, ContenderConfig] = {
    "gpt-4o": ContenderConfig(model="openai/gpt-4o"),
    "gpt-4.1": ContenderConfig(model="openai/gpt-4.1"),
    "o4-mini": ContenderConfig(model="openai/o4-mini", reasoning=True),
    "gemini-2.5-pro": ContenderConfig(model="google/gemini-2.5-pro", reasoning=True),
    "claude-sonnet-4": ContenderConfig(model="anthropic/claude-sonnet-4"),
    "gpt-5.2": ContenderConfig(model="openai/gpt-5.2", reasoning=True),
    "gpt-5-mini": ContenderConfig(model="openai/gpt-5-mini", reasoning=True),
    "gemini-3-pro": ContenderConfig(
        model="google/gemini-3-pro-preview", name="gemini-3-pro", reasoning=True
    ),
    "claude-sonnet-4.5": ContenderConfig(model="anthropic/claude-sonnet-4.5"),
}
"""By name, with the model's id at OpenRouter. The first five are those of ART's published table;
the others follow them, with ids and prices as in the price table of litellm 1.82."""
