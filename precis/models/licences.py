"""Licences of base models, which also apply to models trained from them."""

import re
from dataclasses import dataclass

from precis.settings.trainer import EmbeddedTrainer, Trainer

_MIRRORED = re.compile(r"(-unsloth)?-bnb-4bit$")
"""The suffix that mirrors add to the names of quantized models."""

_HUB = "https://huggingface.co"


@dataclass(frozen=True)
class Licence:
    """A licence, as in the Hub's cards.

    Attributes:
        id: the Hub's identifier, or a name without one.
        url: its text.
        allows_commerce: whether a trained model may be used commercially.
    """

    id: str
    url: str
    allows_commerce: bool

    def __str__(self) -> str:
        if self.allows_commerce:
            return self.id
        return f"{self.id}: research and evaluation only, no commercial use ({self.url})"


_RESEARCH = Licence(
    "qwen-research", f"{_HUB}/Qwen/Qwen2.5-3B-Instruct/blob/main/LICENSE", allows_commerce=False
)
_APACHE = (
    "Qwen/Qwen2.5-0.5B-Instruct",
    "Qwen/Qwen2.5-1.5B-Instruct",
    "Qwen/Qwen2.5-7B-Instruct",
    "Qwen/Qwen2.5-14B-Instruct",
    "Qwen/Qwen3-4B-Instruct-2507",
    "Qwen/Qwen3-8B",
    "OpenPipe/Qwen3-14B-Instruct",
    "HuggingFaceTB/SmolLM2-135M-Instruct",
    "HuggingFaceTB/SmolLM2-1.7B-Instruct",
)
APACHE_PRESET = "Qwen/Qwen2.5-1.5B-Instruct"
"""The base model of `train/h100-apache`."""

_UNKNOWN = "its licence is not known here: read it on the model's page"
_KNOWN = {
    **{
        name.partition("/")[2].lower(): Licence(
            "apache-2.0", f"{_HUB}/{name}/blob/main/LICENSE", allows_commerce=True
        )
        for name in _APACHE
    },
    "qwen2.5-3b": _RESEARCH,
    "qwen2.5-3b-instruct": _RESEARCH,
}


def licence_of(base_model: str) -> Licence | None:
    """Return the licence of a base model, by its name on the Hub; None if unknown.

    A mirror's copy (`unsloth/Qwen2.5-3B-Instruct-bnb-4bit`) has the licence of the original.
    """
    name = base_model.rstrip("/").rpartition("/")[2].lower()
    return _KNOWN.get(_MIRRORED.sub("", name))


async def check_licence(trainer: Trainer) -> str:
    """Describe the base model's licence. It never fails, since some runs are for research."""
    if isinstance(trainer, EmbeddedTrainer):
        return "the embedded policy has no base model"
    base = trainer.base_model
    return restriction_of(trainer) or f"{base}: {licence_of(base) or _UNKNOWN}"


def restriction_of(trainer: Trainer) -> str:
    """Return a sentence on the forbidden uses of a trained model; empty if none are known."""
    licence = licence_of(trainer.base_model)
    if licence is None or licence.allows_commerce:
        return ""
    return (
        f"{trainer.base_model} is licensed for research and evaluation only, without commercial "
        f"use ({licence.id}). {APACHE_PRESET} is Apache-2.0: train/h100-apache."
    )
