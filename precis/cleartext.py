"""Keys that would cross a network in clear, for anybody on the way to read."""

import os
from collections.abc import Iterator
from urllib.parse import urlsplit

from precis.config import BenchmarkConfig, ManagedConfig, RunConfig, TrainConfig
from precis.environment import Variables
from precis.errors import without_passwords
from precis.settings.environment import opponent_of
from precis.settings.tinker import TinkerTrainer

_LOOPBACK = {"localhost", "127.0.0.1", "::1"}


def keys_in_clear(config: RunConfig) -> list[str]:
    """Return a sentence for each key that a run sends to an http:// address beyond the loopback."""
    keys = Variables().keys()
    sentences = []
    for variable, address in _addresses(config):
        is_clear = urlsplit(address).scheme == "http" and not is_loopback(address)
        if keys.get(variable) and is_clear:
            sentences.append(
                f"{variable} goes to {without_passwords(address)} in clear, for anybody on the way "
                "to read: use https://, or an ssh tunnel to the loopback."
            )
    return sentences


def _addresses(config: RunConfig) -> Iterator[tuple[str, str]]:
    """Each key's variable, and where it is sent."""
    environment = Variables()
    if config.judge.provider == "url":
        yield "JUDGE_API_KEY", config.judge.base_url
    second = config.second_judge if isinstance(config, TrainConfig) else None
    if second and second.provider == "url":
        yield "SECOND_JUDGE_API_KEY", second.base_url
    if isinstance(config, BenchmarkConfig):
        for contender in config.contenders:
            yield "CONTENDER_API_KEY", contender.base_url
    if isinstance(config, TrainConfig) and config.warm_start and config.warm_start.teacher:
        yield "CONTENDER_API_KEY", config.warm_start.teacher.base_url
    opponent = opponent_of(config.environment)
    if opponent and opponent.provider == "url":
        yield "OPPONENT_API_KEY", opponent.base_url
    if isinstance(config.trainer, TinkerTrainer):
        yield "TINKER_API_KEY", config.trainer.address or os.environ.get("TINKER_BASE_URL", "")
    yield "LANGFUSE_SECRET_KEY", environment.langfuse_host
    yield "OPENPIPE_API_KEY", environment.openpipe_base_url
    yield "WANDB_API_KEY", os.environ.get("WANDB_BASE_URL", "")
    if environment.weave_project:
        yield "WANDB_API_KEY", environment.weave_url
    elsewhere = config.prefect_api_url if isinstance(config, ManagedConfig) else ""
    yield "PREFECT_API_AUTH_STRING", elsewhere or os.environ.get("PREFECT_API_URL", "")


def is_loopback(address: str) -> bool:
    """Return whether an address means this machine, wherever it is read."""
    return urlsplit(address).hostname in _LOOPBACK
