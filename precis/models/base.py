"""The base model of an adapter: a folder, or what the Hub's cache of this machine holds."""

import json
import re
from pathlib import Path
from typing import Any

from precis.errors import ConfigError
from precis.models.tensors import Weights

HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
"""OWNER/NAME, as the Hub writes it."""

_QUANTIZED = {"U8", "I8", "F8_E4M3", "F8_E5M2", "I32"}
"""Types of packed weights."""


def find_base(name: str) -> Path:
    """The folder of a base model.

    Args:
        name: a folder, or a name on the Hub, which is looked for in the local cache alone.

    Raises:
        ConfigError: neither is there.
    """
    if not name:
        raise ConfigError(
            "The adapter does not say what its base model is.", "Name it with --base."
        )
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError) as error:
        raise ConfigError(
            f"The base model {name} is neither a folder nor in the Hub's cache on this machine.",
            f"Fetch it with `hf download {name}`, or give its folder with --base.",
        ) from error


def public_name(name: str) -> str:
    """A base model's name as others may read it: of a folder, not where it lies."""
    return name if HUB_NAME.fullmatch(name) else Path(name).name


def refuse_quantized(folder: Path, targets: list[str]) -> None:
    """Refuse a base whose weights are packed: a product can't be added to those.

    Args:
        targets: the tensors that would be added to.

    Raises:
        ConfigError: they are packed, or are not there.
    """
    weights = Weights(folder)
    quantized = "quantization_config" in base_config(folder)
    for name in targets:
        if name not in weights.files:
            raise ConfigError(
                f"The base in {folder} has no tensor {name}, which the adapter adds to: it is "
                "another model than the one that was trained.",
                "Name the right one with --base.",
            )
        quantized = quantized or weights.type_of(name) in _QUANTIZED
    if quantized:
        raise ConfigError(
            f"The base in {folder} is quantized (4 or 8 bits), and nothing can be merged into "
            "that.",
            "Give the same model in 16 or 32 bits with --base.",
        )


def base_config(folder: Path) -> dict[str, Any]:
    """A model's `config.json`.

    Raises:
        ConfigError: it can't be read.
    """
    path = folder / "config.json"
    try:
        config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} can't be read: {folder} is not a model's folder.") from error
    return config
