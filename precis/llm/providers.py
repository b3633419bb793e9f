"""Where the judge is, which model serves it, and which key it wants."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from precis.config import JudgeConfig
from precis.errors import ConfigError

LEXICAL_MODEL = "lexical-judge"
"""The name that the judge on this machine serves under."""


@dataclass(frozen=True)
class Endpoint:
    """An OpenAI-compatible endpoint.

    Attributes:
        base_url: what `/chat/completions` is appended to.
        structured: whether to ask for replies by JSON schema first; a judge that rejects that is
            asked more plainly, whatever this says.
        key_variable: the environment variable that the key came from, for messages.
        role: who answers there, for messages.
    """

    base_url: str
    model: str
    api_key: str = field(repr=False)
    structured: bool = True
    key_variable: str = "JUDGE_API_KEY"
    role: str = "judge"


@dataclass(frozen=True)
class _Preset:
    base_url: str
    model: str
    key_variable: str


_PRESETS: dict[Literal["openrouter", "google"], _Preset] = {
    "openrouter": _Preset(
        "https://openrouter.ai/api/v1", "google/gemini-2.5-flash", "OPENROUTER_API_KEY"
    ),
    "google": _Preset(
        "https://generativelanguage.googleapis.com/v1beta/openai",
        "gemini-2.5-flash",
        "GEMINI_API_KEY",
    ),
}


def endpoint_for(
    config: JudgeConfig, environment: Mapping[str, str], local_url: str | None = None
) -> Endpoint:
    """The endpoint that a configuration means.

    Args:
        config: provider, and the model where it is not the provider's default.
        environment: where the key is read from.
        local_url: of the lexical judge, from whoever started it; ends in `/v1`.

    Raises:
        ConfigError: the key's variable is not set, or the lexical judge was not started.
    """
    if config.provider == "lexical":
        if local_url is None:
            raise ConfigError(
                "Judge provider 'lexical' is a server on this machine, and none was started: "
                "start precis.standins.judge and give its address, or choose another provider."
            )
        return Endpoint(_trimmed(local_url), config.model or LEXICAL_MODEL, api_key="local")
    if config.provider == "url":
        preset = _Preset(config.base_url, config.model, "JUDGE_API_KEY")
    else:
        preset = _PRESETS[config.provider]
    return Endpoint(
        _trimmed(preset.base_url),
        config.model or preset.model,
        _key(preset.key_variable, config.provider, environment),
        key_variable=preset.key_variable,
    )


def _key(variable: str, provider: str, environment: Mapping[str, str]) -> str:
    key = environment.get(variable, "").strip()
    if not key:
        raise ConfigError(
            f"The judge's key is missing: provider '{provider}' reads it from {variable}. "
            f"Set {variable} in the environment or in .env (any word will do for an endpoint "
            "that asks for none), or rehearse with judge provider 'lexical', which needs no key."
        )
    if not key.isascii() or not key.isprintable():
        raise ConfigError(
            f"{variable} holds characters that no key has: copy the key again, on one line."
        )
    return key


def _trimmed(url: str) -> str:
    return url.rstrip("/")
