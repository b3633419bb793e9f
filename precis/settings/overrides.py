"""Overrides of settings, one by one."""

from collections.abc import Mapping
from typing import Any, get_args

from pydantic_core import PydanticUndefined

from precis.errors import ConfigError
from precis.record import Record

Given = Mapping[str, Any]

CONFIG = "config"
"""The parameter of a flow that may have any of its settings."""
_OF_SUMMARIES = ("documents", "judge", "second_judge", "warm_start", "judge_concurrency_limit")
"""The parameters of a deployment that apply only to summaries."""


def lay_over(model: type[Record], deployed: Given, own: Given) -> dict[str, Any]:
    """Return a run's settings: its own over those of its deployment.

    For another environment the deployment's settings of summaries are left out. Raises ConfigError
    if the run then names no model, and the deployment's is one of summaries.
    """
    base = take_apart(model, deployed)
    over = take_apart(model, own)
    if _kind(over.get("environment")) not in ("", "summaries"):
        named = base.get("model")
        if named and "model" not in over and _kind(base.get("environment")) in ("", "summaries"):
            raise ConfigError(
                f"The deployment's model, {named}, is one of summaries.",
                "Name one for this environment: -p model=a-new-name, or Model in the form.",
            )
        base = {name: value for name, value in base.items() if name not in _OF_SUMMARIES}
    return overlay(model, base, over)


def take_apart(model: type[Record], parameters: Given) -> dict[str, Any]:
    """Return the parameters of a flow as settings; those in its `config` override the others. A
    None that is no setting's value is not given. Raises ConfigError if `config` is not an object.
    """
    alone = {}
    for name, value in parameters.items():
        field = model.model_fields.get(name)
        is_unset = value is None and field is not None and field.default is not None
        if name != CONFIG and value is not PydanticUndefined and not is_unset:
            alone[name] = value
    inside = parameters.get(CONFIG) or {}
    if not isinstance(inside, Mapping):
        raise ConfigError(
            f"The parameter `{CONFIG}` is {inside!r}.",
            "Give it an object with settings by their names, or leave it out.",
        )
    return overlay(model, alone, inside)


def merge_config(parameters: Given) -> dict[str, Any]:
    """Return the stored parameters of a flow run, with those in its `config` over the others. A
    `config` that is not an object, with which it has failed, is left out."""
    inside = parameters.get(CONFIG)
    return {**parameters, **(inside if isinstance(inside, Mapping) else {})}


def overlay(model: type[Record], base: Given, over: Given) -> dict[str, Any]:
    """Return the settings of `base`, overridden by those of `over`.

    Groups of settings, such as `documents`, are overridden one by one, so that
    `{"documents": {"val_size": 8}}` leaves the source unchanged. The user's own lists and tables,
    such as `prices`, are replaced as a whole; so is a trainer of another kind. Another provider
    keeps neither the address nor the model, which each names in its own way.
    """
    laid = dict(base)
    if "provider" in base and over.get("provider", base["provider"]) != base["provider"]:
        laid.pop("base_url", None)
        laid.pop("model", None)
    for name, value in over.items():
        there = laid.get(name)
        inner = _inner(model, name, there, value)
        laid[name] = value if inner is None else overlay(inner, there or {}, value)
    return laid


def _inner(model: type[Record], name: str, there: Any, value: Any) -> type[Record] | None:
    """Return the class of settings that both values are of; None if one replaces the other."""
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
    # Several models, such as `trainer`'s, are distinguished by their `kind`.
    kind = (there or {}).get("kind")
    if value.get("kind", kind) != kind:
        return None
    for each in models:
        if each.model_fields["kind"].default == kind:
            return each
    return models[0]


def _kind(environment: Any) -> str:
    """Return the kind of an environment's settings; a path is returned unchanged."""
    if isinstance(environment, Mapping):
        return str(environment.get("kind", ""))
    return str(environment or "")
