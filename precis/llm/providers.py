"""Where a model is served, and which key it wants."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Endpoint:
    """An OpenAI-compatible endpoint.

    Attributes:
        base_url: what `/chat/completions` is appended to.
        structured: whether to ask for replies by JSON schema first; a judge that rejects that is
            asked more plainly, whatever this says.
        key_variable: the environment variable that the key came from, for messages; empty where
            the run made the key itself.
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
    """Who serves models for money: where, and which environment variable holds the key."""

    base_url: str
    key_variable: str


PROVIDERS: Mapping[str, Provider] = {
    "openrouter": Provider("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "openai": Provider("https://api.openai.com/v1", "OPENAI_API_KEY"),
    "google": Provider("https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
}
"""By the name that settings give them."""


def is_sendable(key: str) -> bool:
    """Whether a header can carry this key: it is not empty, and stands on one line."""
    return key != "" and key.isascii() and key.isprintable()
