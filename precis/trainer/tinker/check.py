"""The check that a Tinker service will train what a run wants, made in seconds.

Importing this takes no client of the service, which is an extra.
"""

import asyncio
import importlib.util

from precis.environment import Variables
from precis.errors import ConfigError
from precis.llm.providers import sendable
from precis.settings.tinker import TinkerTrainer

_DEADLINE_S = 60.0


async def check_service(settings: TinkerTrainer) -> str:
    """Ask the service for its models; nothing is begun there. Raises ConfigError if its client is
    not installed, the key or the tokenizer is missing, the key is refused, or it does not have the
    base model, and TrainerError if it does not answer."""
    require_client()
    from precis.trainer.tinker.service import find_service  # with the client, an extra
    from precis.trainer.tinker.tokenizer import load_tokenizer

    service = find_service(settings)
    models = await service.ask("say what it serves", service.list_models(), _DEADLINE_S)
    if settings.base_model not in models:
        raise ConfigError(
            f"{service.name} does not serve {settings.base_model}; it has "
            f"{', '.join(sorted(models)) or 'no model'}.",
            "Name one of them in trainer.base_model.",
        )
    await asyncio.to_thread(load_tokenizer, settings.tokenizer or settings.base_model)
    return f"{settings.base_model} is served"


def check_key(settings: TinkerTrainer) -> str | None:
    """Return the key of the environment; None where there is none, and a service of one's own asks
    none. A ConfigError says that it is missing, or is none."""
    secret = Variables().tinker_api_key
    if secret is None and settings.service == "skyrl":
        return None
    if secret is None:
        raise ConfigError("trainer.kind 'tinker' needs TINKER_API_KEY: set it, here or in .env.")
    key = sendable(secret.get_secret_value(), "TINKER_API_KEY")
    if not key.startswith("tml-"):
        raise ConfigError("TINKER_API_KEY is no key of the Tinker API: those begin with 'tml-'.")
    return key


def is_client_installed() -> bool:
    return importlib.util.find_spec("tinker") is not None


def require_client() -> None:
    """See that the service's client is installed; a ConfigError says that it is not."""
    if not is_client_installed():
        raise ConfigError(
            "trainer.kind is 'tinker', but the client of the Tinker API is not installed: run "
            "`make install-tinker`, or install Précis with its extra `tinker`."
        )
