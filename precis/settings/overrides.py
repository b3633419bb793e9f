"""Some settings laid over others: what is given goes before what was there, one by one."""

from collections.abc import Mapping
from typing import Any, get_args

from precis.record import Record

Given = Mapping[str, Any]


def overlay(model: type[Record], base: Given, over: Given) -> dict[str, Any]:
    """Settings of a model, those of `over` in place of those of `base`.

    Settings that hold others, such as `documents`, are taken apart, so that
    `{"documents": {"val_size": 8}}` leaves the source as it was. Lists and tables of the user's
    own, such as `prices`, are taken as a whole; so is a trainer of another kind.
    """
    laid = dict(base)
    for name, value in over.items():
        there = laid.get(name)
        inner = _inner(model, name, there, value)
        laid[name] = value if inner is None else overlay(inner, there or {}, value)
    return laid


def _inner(model: type[Record], name: str, there: Any, value: Any) -> type[Record] | None:
    """Of what settings both values are; None where one is to replace the other."""
    if name not in model.model_fields or not isinstance(there, Mapping | None):
        return None
    if not isinstance(value, Mapping):
        return None
    annotation = model.model_fields[name].annotation
    models: list[type[Record]] = []
    for each in (annotation, *get_args(annotation)):
        if isinstance(each, type) and issubclass(each, Record):
            models.append(each)
    if len(models) < 2:
        return models[0] if models else None
    # Several models, as of `trainer`, are told apart by their `kind`.
    kind = (there or {}).get("kind")
    if value.get("kind", kind) != kind:
        return None
    for each in models:
        if each.model_fields["kind"].default == kind:
            return each
    return models[0]
