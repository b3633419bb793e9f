"""Keys that would cross a network unencrypted."""

import os
from collections.abc import Iterator
from urllib.parse import SplitResult, urlsplit

from precis.config import BenchmarkConfig, ManagedConfig, RunConfig, TrainConfig
from precis.environment import Variables
from precis.errors import without_passwords
from precis.llm.providers import PROVIDERS, HostedSettings
from precis.settings.environment import opponent_of
from precis.settings.tinker import TinkerTrainer

_LOOPBACK = {"localhost", "127.0.0.1", "::1"}


def keys_in_clear(config: RunConfig) -> list[str]:
    """Return a sentence for each key that a run sends to an http:// address off the loopback."""
    environment = Variables()
    keys = environment.keys()
    elsewhere = config.prefect_api_url if isinstance(config, ManagedConfig) else ""
    sent = []
    for _, variable, asked in models_asked(config):
        sent.append((variable, asked.base_url))
    if isinstance(config.trainer, TinkerTrainer):
        address = config.trainer.address or os.environ.get("TINKER_BASE_URL", "")
        sent.append(("TINKER_API_KEY", address))
    sent += [
        ("LANGFUSE_SECRET_KEY", environment.langfuse_host),
        ("OPENPIPE_API_KEY", environment.openpipe_base_url),
        ("WANDB_API_KEY", os.environ.get("WANDB_BASE_URL", "")),
        ("WANDB_API_KEY", environment.weave_url if environment.weave_project else ""),
        ("HF_TOKEN", os.environ.get("HF_ENDPOINT", "")),
        ("PREFECT_API_AUTH_STRING", elsewhere or environment.prefect_api_url or ""),
        ("PREFECT_API_KEY", elsewhere or environment.prefect_api_url or ""),
    ]
    sentences = []
    for variable, address in sent:
        is_clear = _parts_of(address).scheme == "http" and not is_loopback(address)
        if keys.get(variable) and is_clear:
            sentences.append(
                f"{variable} goes to {without_passwords(address)} in clear, for anybody on the way "
                "to read: use https://, or an ssh tunnel to the loopback."
            )
    return sentences


def models_asked(config: RunConfig) -> Iterator[tuple[str, str, HostedSettings]]:
    """Yield the models that a run calls beside its policy: the setting's name, the key's variable,
    and the settings."""
    asked: list[tuple[str, str, HostedSettings | None]] = [("judge", "JUDGE_API_KEY", config.judge)]
    if isinstance(config, TrainConfig):
        teacher = config.warm_start.teacher if config.warm_start else None
        asked.append(("second_judge", "SECOND_JUDGE_API_KEY", config.second_judge))
        asked.append(("warm_start.teacher", "CONTENDER_API_KEY", teacher))
    if isinstance(config, BenchmarkConfig):
        for one in config.contenders:
            asked.append(("contenders", "CONTENDER_API_KEY", one))
    asked.append(("environment.opponent", "OPPONENT_API_KEY", opponent_of(config.environment)))
    for name, own_key, settings in asked:
        if settings is not None:
            known = PROVIDERS.get(settings.provider)
            yield name, known.key_variable if known else own_key, settings


def is_loopback(address: str) -> bool:
    """Return whether an address means the machine that uses it."""
    return _parts_of(address).hostname in _LOOPBACK


def _parts_of(address: str) -> SplitResult:
    """Return the parts of an address; empty ones for text that is none, which its user reports."""
    try:
        return urlsplit(address)
    except ValueError:
        return urlsplit("")
