"""The configuration reference of the documentation, made from the settings' models.

`python -m tools.reference` writes it into `docs/configuration.md`, between the two markers; a test
checks that it is up to date.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic.fields import FieldInfo

from precis.config import BenchmarkConfig, ManagedConfig, TrainConfig
from precis.record import Record
from precis.settings.cluster import ClusterSweepConfig, DownConfig
from precis.sweep.trials import SweepConfig

PAGE = Path(__file__).parents[1] / "docs" / "configuration.md"
_BEGIN = "<!-- configuration -->"
_END = "<!-- /configuration -->"


def reference() -> str:
    """Return all settings of the flows as Markdown tables, one for each model."""
    configs = (
        TrainConfig,
        ManagedConfig,
        BenchmarkConfig,
        SweepConfig,
        DownConfig,
        ClusterSweepConfig,
    )
    models: dict[type[Record], None] = {}
    for config in configs:
        models.update(dict.fromkeys(_models(config)))
    return "\n\n".join(map(_table, models))


def with_reference(page: str) -> str:
    """Return the page with the reference between its markers."""
    before, begin, rest = page.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not (begin and end):
        raise ValueError(f"{PAGE.name} has no {_BEGIN} … {_END} markers")
    return f"{before}{begin}\n{reference()}\n{end}{after}"


def _models(model: type[Record]) -> Iterator[type[Record]]:
    """Yield the model, then those of its fields."""
    yield model
    for field in model.model_fields.values():
        for kind in (field.annotation, *get_args(field.annotation)):  # `Settings | None` too
            if isinstance(kind, type) and issubclass(kind, Record):
                yield from _models(kind)


def _table(model: type[Record]) -> str:
    rows = {name: _row(name, field) for name, field in model.model_fields.items()}
    head = f"**{model.__name__}**: {_sentence(model.__doc__)}"
    if model is not TrainConfig:
        # Settings of training have a table of their own, and are not explained again.
        training = {name: _row(name, field) for name, field in TrainConfig.model_fields.items()}
        shared = [name for name, row in rows.items() if training.get(name) == row]
        rows = {name: row for name, row in rows.items() if name not in shared}
        if len(shared) == len(training):
            head += " It has the settings of TrainConfig, and:"
        elif shared:
            named = ", ".join(f"`{name}`" for name in shared)
            head += f" It has these settings of TrainConfig: {named}; and:"
    return "\n".join([head, "", "| setting | default | |", "| --- | --- | --- |", *rows.values()])


def _row(name: str, field: FieldInfo) -> str:
    if field.is_required():
        default = "to be given"
    else:
        # The form has no default for variables of the environment, which it would override.
        value: Any = (
            field.examples[0] if field.examples else field.get_default(call_default_factory=True)
        )
        if get_origin(field.annotation) is tuple and get_args(field.annotation):
            value = list(value)
        default = type(value).__name__ if isinstance(value, Record) else f"`{value!r}`"
    return f"| `{name}` | {default} | {_sentence(field.description)} |"


def _sentence(text: str | None) -> str:
    first = (text or "").strip().partition("\n\n")[0]
    return re.sub(r"\s+", " ", first).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(with_reference(PAGE.read_text()))
