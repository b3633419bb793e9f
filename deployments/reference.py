"""The configuration reference in the README, made from the config models.

`python -m deployments.reference` writes it between the two markers; a test checks that it is
up to date.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic.fields import FieldInfo

from precis.config import BenchmarkConfig, Settings, TrainConfig

README = Path(__file__).parents[1] / "README.md"
_BEGIN, _END = "<!-- configuration -->", "<!-- /configuration -->"


def reference() -> str:
    """All settings of the flows as markdown tables: one for each model."""
    models = dict.fromkeys([*_models(TrainConfig), *_models(BenchmarkConfig)])
    return "\n\n".join(_table(model) for model in models)


def with_reference(readme: str) -> str:
    """The README with the reference between its markers."""
    before, begin, rest = readme.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not (begin and end):
        raise ValueError(f"{README.name} has no {_BEGIN} … {_END} markers")
    return f"{before}{begin}\n{reference()}\n{end}{after}"


def _models(model: type[Settings]) -> Iterator[type[Settings]]:
    """The model, then those that its fields hold."""
    yield model
    for field in model.model_fields.values():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Settings):
            yield from _models(field.annotation)


def _table(model: type[Settings]) -> str:
    rows = [_row(name, field) for name, field in model.model_fields.items()]
    head = f"**{model.__name__}**: {_sentence(model.__doc__)}"
    return "\n".join([head, "", "| setting | default | |", "| --- | --- | --- |", *rows])


def _row(name: str, field: FieldInfo) -> str:
    return f"| `{name}` | {_default(field)} | {_sentence(field.description)} |"


def _default(field: FieldInfo) -> str:
    extra = field.json_schema_extra
    value: Any = extra["default"] if isinstance(extra, dict) else field.default
    if isinstance(value, Settings):
        return f"{type(value).__name__}"
    if get_origin(field.annotation) is tuple and get_args(field.annotation):
        value = list(value)
    return f"`{value!r}`"


def _sentence(text: str | None) -> str:
    first = (text or "").strip().partition("\n\n")[0]
    return re.sub(r"\s+", " ", first).replace("|", "\\|")


if __name__ == "__main__":
    README.write_text(with_reference(README.read_text()))
