"""The options that name a command's judge."""

from typing import Annotated, Literal

import typer
from pydantic import ValidationError

from precis.config import JudgeConfig
from precis.errors import ConfigError, without_passwords

JudgeName = Literal["lexical", "openrouter", "google", "url"]
JudgeModel = Annotated[str, typer.Option(help="Its model; empty takes the provider's.")]
JudgeUrl = Annotated[str, typer.Option(help="Its endpoint, for judge `url`.")]


def judge_named(judge: JudgeName, model: str, url: str) -> JudgeConfig:
    """Return the settings of a judge. Raises ConfigError with the option that is missing or
    invalid."""
    if judge == "url" and not (url and model):
        raise ConfigError("--judge url needs --judge-url and --judge-model.")
    if url and not url.startswith(("http://", "https://")):
        raise ConfigError("--judge-url must start with http:// or https://.")
    if without_passwords(url) != url:
        raise ConfigError("--judge-url carries a password.", "Set JUDGE_API_KEY instead.")
    if judge != "url" and url:
        raise ConfigError("--judge-url is the address of judge `url`.", "Give --judge url too.")
    if judge == "lexical" and model:
        raise ConfigError(
            "--judge-model is a hosted judge's.", "Give --judge too: openrouter, google or url."
        )
    try:
        return JudgeConfig(provider=judge, model=model, base_url=url)
    except ValidationError:
        raise ConfigError("--judge-url is not an address.", "Write http://HOST:PORT/v1.") from None
