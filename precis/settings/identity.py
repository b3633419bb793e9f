"""The settings that decide a run's result, marked on each setting itself.

seed: Decides[int] = 1       a run can be resumed only with the same one
steps: MayChange[int] = 30   it may change when a run is resumed
judge: ByIdentity[JudgeConfig]   its identity decides, and has a digest
"""

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Annotated, Any, TypeVar

from pydantic.fields import FieldInfo

from precis.record import Record

T = TypeVar("T")


class Effect(Enum):
    """The effect of a setting on the result."""

    DECIDES = "decides"
    MAY_CHANGE = "may change"
    BY_IDENTITY = "by identity"


Decides = Annotated[T, Effect.DECIDES]
MayChange = Annotated[T, Effect.MAY_CHANGE]
ByIdentity = Annotated[T, Effect.BY_IDENTITY]


def effect_of(field: FieldInfo) -> Effect | None:
    """Return the mark of a setting, or None if it has none."""
    return next((mark for mark in field.metadata if isinstance(mark, Effect)), None)


def decisive_settings(settings: Record) -> dict[str, Any]:
    """Return the decisive settings by name; in a group of settings, only its decisive ones."""
    found = {}
    for name, field in type(settings).model_fields.items():
        if effect_of(field) is Effect.DECIDES:
            value = getattr(settings, name)
            found[name] = decisive_settings(value) if isinstance(value, Record) else value
    return found


def changed_settings(
    before: Mapping[str, Any], now: Record, prefix: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    """Yield the decisive settings that differ from those of an earlier run: the dotted name, the
    value before, and the value now.

    Args:
        before: the earlier run's settings, as JSON values.
        prefix: the beginning of their names, for a group of settings.
    """
    dumped = now.model_dump(mode="json")
    for name, field in type(now).model_fields.items():
        old = before.get(name)
        new = dumped[name]
        if old == new or effect_of(field) is Effect.MAY_CHANGE:
            continue
        value = getattr(now, name)
        if not (isinstance(value, Record) and isinstance(old, Mapping)):
            yield f"{prefix}{name}", old, new
        elif old.get("kind") != new.get("kind"):
            yield f"{prefix}{name}.kind", old.get("kind"), new.get("kind")
        else:
            yield from changed_settings(old, value, f"{prefix}{name}.")
