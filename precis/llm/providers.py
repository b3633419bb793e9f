"""The addresses of model providers, and their keys."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from precis.config import ContenderConfig, JudgeConfig
from precis.environment import Variables
from precis.errors import ConfigError
from precis.settings.environment import OpponentSettings

SERVER_KEY_VARIABLE = "PRECIS_API_KEY"
"""The variable with the key of the user's own server."""


@dataclass(frozen=True)
class Endpoint:
    """An OpenAI-compatible endpoint.

    Attributes:
        base_url: the prefix of `/chat/completions`.
        key_variable: the environment variable of the key; empty if the run made it.
        role: the server's role, for messages.
    """

    base_url: str
    model: str
    api_key: str = field(repr=False)
    key_variable: str = ""
    role: str = "judge"


@dataclass(frozen=True)
class Provider:
    """A commercial provider of models: its URL, and the environment variable of its key."""

    base_url: str
    key_variable: str


PROVIDERS: Mapping[str, Provider] = {
    "openrouter": Provider("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "openai": Provider("https://api.openai.com/v1", "OPENAI_API_KEY"),
    "google": Provider("https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
}
"""The providers, by their names in settings."""


HostedSettings = JudgeConfig | ContenderConfig | OpponentSettings
"""The settings of a hosted model."""


def endpoint_of(
    settings: HostedSettings,
    keys: Mapping[str, str],
    role: str,
    own_key: str,
    *,
    keyless: bool = False,
    remedy: str = "",
) -> Endpoint:
    """Return the endpoint of a hosted model. Raises ConfigError if the provider's key is not set.

    Args:
        keys: the keys that are set, by variable.
        own_key: the variable of the key of provider `url`, which is optional if `keyless`.
        remedy: the end of the sentence about a missing key.
    """
    provider = PROVIDERS.get(settings.provider, Provider("", own_key))
    variable = provider.key_variable
    key = keys.get(variable, "").strip()
    if not key and keyless and settings.provider == "url":
        key = NO_KEY
    if not is_sendable(key):
        if settings.provider == "url":
            remedy = f" (any word will do for an endpoint that asks for none){remedy}"
        raise ConfigError(
            f"The {role} needs a key: provider {settings.provider!r} reads it from {variable}.",
            f"Set {variable} in the environment or in .env, on one line{remedy}.",
        )
    url = (settings.base_url or provider.base_url).rstrip("/")
    return Endpoint(url, settings.model, key, key_variable=variable, role=role)


NO_KEY = "none"
"""The default key for the user's own server: one without authorization accepts any."""


def key_of_server() -> str | None:
    """Return the key of the user's own server, or None."""
    secret = Variables().precis_api_key
    return sendable(secret.get_secret_value(), SERVER_KEY_VARIABLE) if secret else None


def sendable(key: str, variable: str) -> str:
    """Return a key without surrounding space. Raises ConfigError for one that is not valid in a
    header: the client's error would quote it."""
    key = key.strip()
    if not is_sendable(key):
        raise ConfigError(
            f"{variable} holds characters that no key has: copy the key again, on one line."
        )
    return key


def is_sendable(key: str) -> bool:
    """Return whether a key is valid in a header: not empty, and on one line."""
    return key != "" and key.isascii() and key.isprintable()
