"""The addresses of the providers of models, and the keys they want."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from precis.environment import Variables
from precis.errors import ConfigError

SERVER_KEY_VARIABLE = "PRECIS_API_KEY"
"""Holds the key of a server of one's own."""


@dataclass(frozen=True)
class Endpoint:
    """An OpenAI-compatible endpoint.

    Attributes:
        base_url: what `/chat/completions` is appended to.
        structured: whether to ask for replies by JSON schema first.
        key_variable: the environment variable that the key came from; empty where the run made
            it.
        role: who answers there, for messages.
    """

    base_url: str
    model: str
    api_key: str = field(repr=False)
    structured: bool = True
    key_variable: str = "JUDGE_API_KEY"
    role: str = "judge"


@dataclass(frozen=True)
class Provider:
    """A provider that serves models for money: its URL, and the environment variable of its key."""

    base_url: str
    key_variable: str


PROVIDERS: Mapping[str, Provider] = {
    "openrouter": Provider("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "openai": Provider("https://api.openai.com/v1", "OPENAI_API_KEY"),
    "google": Provider("https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
}
"""By the name that settings give them."""


class HostedSettings(Protocol):
    """The settings of a model that somebody else serves."""

    @property
    def provider(self) -> str: ...

    @property
    def base_url(self) -> str: ...

    @property
    def model(self) -> str: ...


def endpoint_of(
    settings: HostedSettings,
    keys: Mapping[str, str],
    role: str,
    own_key: str,
    *,
    keyless: bool = False,
    remedy: str = "",
) -> Endpoint:
    """Return the endpoint of a hosted model.

    Args:
        keys: those that are set, by the name of their variable.
        own_key: the variable of the key of provider `url`, which may do without one if
            `keyless`.
        remedy: the end of the sentence on where to set it.

    Raises:
        ConfigError: the provider's key is not set.
    """
    provider = PROVIDERS.get(settings.provider, Provider("", own_key))
    variable = provider.key_variable
    key = keys.get(variable, "").strip()
    if not key and keyless and settings.provider == "url":
        key = NO_KEY
    if not is_sendable(key):
        raise ConfigError(
            f"The {role} needs a key: provider {settings.provider!r} reads it from {variable}.",
            f"Set {variable} in the environment or in .env, on one line{remedy}.",
        )
    url = (settings.base_url or provider.base_url).rstrip("/")
    return Endpoint(url, settings.model, key, key_variable=variable, role=role)


NO_KEY = "none"
"""The key for a server of one's own where none is set: one that asks for none takes any."""


def key_of_server() -> str | None:
    """Return the key of a server of one's own; None where none is set."""
    secret = Variables().precis_api_key
    return sendable(secret.get_secret_value(), SERVER_KEY_VARIABLE) if secret else None


def sendable(key: str, variable: str) -> str:
    """Return a key without the space around it. One that no header can carry is a ConfigError: what
    sends it would quote it."""
    key = key.strip()
    if not is_sendable(key):
        raise ConfigError(
            f"{variable} holds characters that no key has: copy the key again, on one line."
        )
    return key


def is_sendable(key: str) -> bool:
    """Return whether a header can carry this key: it is not empty, and is on one line."""
    return key != "" and key.isascii() and key.isprintable()
