"""Hosted models that can be named without more: where each is served, and how it is asked."""

from collections.abc import Mapping

from precis.config import ContenderConfig, Hosted
from precis.errors import ConfigError
from precis.llm.providers import PROVIDERS, Endpoint, Provider, is_sendable

_OWN = Provider("", "CONTENDER_API_KEY")

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


def endpoint_of(config: ContenderConfig, keys: Mapping[str, str]) -> Endpoint:
    """Return the endpoint of a contender.

    Args:
        keys: the keys that are set, by the name of their variable.

    Raises:
        ConfigError: the provider's key is not set.
    """
    provider = _OWN if config.provider == "url" else PROVIDERS[config.provider]
    key = keys.get(provider.key_variable, "").strip()
    if not is_sendable(key):
        raise ConfigError(
            f"The contender {config.called!r} needs a key: provider {config.provider!r} reads it "
            f"from {provider.key_variable}.",
            f"Set {provider.key_variable} in the environment or in "
            ".env, on one line (any word will do for an endpoint that asks for none), or leave "
            "the contender out.",
        )
    return Endpoint(
        (config.base_url or provider.base_url).rstrip("/"),
        config.model,
        key,
        key_variable=provider.key_variable,
        role=f"contender {config.called!r}",
    )
