"""Licences of base models, which also apply to models trained from them."""

import re
from dataclasses import dataclass

from precis.settings.trainer import EmbeddedTrainer, Trainer

_MIRRORED = re.compile(r"(-unsloth)?-bnb-4bit$")
"""The suffix that mirrors add to the names of quantized models."""


@dataclass(frozen=True)
class Licence:
    """A licence, as in the Hub's cards.

    Attributes:
        id: the Hub's identifier, or a name without one.
        research_only: the address of its text if it allows no commercial use of a trained model.
    """

    id: str
    research_only: str = ""

    def __str__(self) -> str:
        if not self.research_only:
            return self.id
        return f"{self.id}: research and evaluation only, no commercial use"


_APACHE = Licence("apache-2.0")
_RESEARCH = Licence(
    "qwen-research", "https://huggingface.co/Qwen/Qwen2.5-3B-Instruct/blob/main/LICENSE"
)
_KNOWN = {
    "qwen2.5-0.5b-instruct": _APACHE,
    "qwen2.5-1.5b-instruct": _APACHE,
    "qwen2.5-7b-instruct": _APACHE,
    "qwen2.5-14b-instruct": _APACHE,
    "qwen3-4b-instruct-2507": _APACHE,
    "qwen3-8b": _APACHE,
    "qwen3-14b-instruct": _APACHE,
    "smollm2-135m-instruct": _APACHE,
    "smollm2-1.7b-instruct": _APACHE,
    "qwen2.5-3b": _RESEARCH,
    "qwen2.5-3b-instruct": _RESEARCH,
}
"""The licences, by the last part of the models' names."""
APACHE_PRESET = "Qwen/Qwen2.5-1.5B-Instruct"
"""The base model of `train/h100-apache`."""

_UNKNOWN = "its licence is not known here: read it on the model's page"


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
    if licence is None or not licence.research_only:
        return ""
    return (
        f"{trainer.base_model} is licensed for research and evaluation only, without commercial "
        f"use ({licence.id}). {APACHE_PRESET} is Apache-2.0: train/h100-apache."
    )
