"""The base model of an adapter: a folder, or a model in this machine's Hub cache.

Anyone who can write to a store can change a checkpoint's base name, which goes onto a command line
and decides which weights are loaded. So a store may only name a model on the Hub: no option, and no
folder of this machine, unless the user names that folder too.
"""

import os
import re
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from precis.errors import ConfigError
from precis.models.tensors import Weights
from precis.record import BaseModelName

HUB_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
"""OWNER/NAME, as on the Hub, whose names have 96 characters at most."""

_HUB_ID = re.compile(rf"{HUB_NAME.pattern}|[A-Za-z0-9][A-Za-z0-9._-]*")
"""The same, or one of the Hub's few models without an owner."""
_NAME = TypeAdapter(BaseModelName)
_OBJECT = TypeAdapter(dict[str, Any])
_NAME_IT = "Name it with --base."

_QUANTIZED = {"U8", "I8", "F8_E4M3", "F8_E5M2", "I32"}
"""Types of packed weights."""


def choose_base(named: str, recorded: str, claimed: str) -> str:
    """Return an adapter's base model as named by the user, or else by the run's record and the
    adapter; empty if unnamed. Raises ConfigError if it is not a model's name, or the two differ.
    """
    if named:
        folder = os.path.expanduser(named)  # unlike Path's, does not raise for an unknown user
        if os.path.isabs(folder) or os.path.isdir(folder):
            return str(Path(folder).absolute())
        if not _HUB_ID.fullmatch(named):
            raise ConfigError(
                f"--base {named!r} is neither a folder nor a name on the Hub.",
                "Write OWNER/NAME, or the folder's path.",
            )
        return named
    try:
        _NAME.validate_python(claimed or "none")  # the record's is valid
    except ValidationError:
        raise ConfigError(
            f"The checkpoint names {claimed[:100]!r} as its base, which is not a model's name.",
            _NAME_IT,
        ) from None
    if recorded and claimed and recorded != claimed:
        raise ConfigError(
            f"The run was trained on {recorded}, but its adapter names {claimed} as its base.",
            _NAME_IT,
        )
    return recorded or claimed


def base_to_load(named: str, recorded: str, claimed: str) -> str:
    """Return the base model to load: a name on the Hub, or a folder that the user named, in full.

    The names are those of `choose_base`. Raises ConfigError if the user has to give one.
    """
    name = choose_base(named, recorded, claimed)
    if named:
        return name
    if not name:
        raise ConfigError("The adapter does not say what its base model is.", _NAME_IT)
    if not _HUB_ID.fullmatch(name):
        raise ConfigError(
            f"The checkpoint names {name} as its base model. A store may name a model on the Hub, "
            "but no folder of this machine.",
            _NAME_IT,
        )
    if Path(name).exists():  # programs would prefer it to the Hub's model of that name
        raise ConfigError(
            f"The checkpoint names {name} as its base model, which is also a folder here.",
            "Run the command in another folder, or name the base with --base.",
        )
    return name


def find_base(name: str) -> Path:
    """Return the folder of a base model; one on the Hub must be in the cache, else a
    ConfigError."""
    folder = Path(name)
    if folder.is_absolute() and folder.is_dir():
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
    """Return a base model's public name: for a folder, its name without its path."""
    return name if HUB_NAME.fullmatch(name) else Path(name).name


def refuse_quantized(folder: Path, targets: list[str]) -> None:
    """Refuse a base with quantized weights, or without a target: a product can't be added to it."""
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
            f"The base in {folder} is quantized (4 or 8 bits): nothing can be merged into it.",
            "Give the same model in 16 or 32 bits with --base.",
        )


def base_config(folder: Path) -> dict[str, Any]:
    """Return a model's `config.json`, or raise ConfigError."""
    path = folder / "config.json"
    try:
        return _OBJECT.validate_json(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{path} can't be read: {folder} is not a model's folder.", "Name another."
        ) from error
