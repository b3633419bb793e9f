"""A flow's settings as its parameters, with their fields in Prefect's form."""

from collections.abc import Collection
from inspect import Parameter, Signature
from typing import Annotated, Any, TypeVar

from pydantic import Field, ValidationError
from pydantic.fields import FieldInfo

from precis.errors import ConfigError
from precis.record import Record
from precis.settings.overrides import CONFIG, Given
from precis.settings.problems import problems_in

C = TypeVar("C", bound=Record)

_FIRST = (
    "model", "environment", "steps", "documents", "store", "budget_usd", "validate_every",
    "benchmark", "seed",
)  # fmt: skip
"""The settings that users change first, in the form's order; the others follow in the model's
order."""
_CONFIG_HELP = "Any of these settings as one JSON object, for programs; it overrides the others."


def settings_from(model: type[C], settings: Given) -> C:
    """Validate the settings as a model. Raises ConfigError if they are invalid; the message says
    which and why."""
    try:
        return model.model_validate(settings)
    except ValidationError as error:
        problems = "; ".join(problems_in(error))
        raise ConfigError(f"Settings that can't work: {problems}.") from error


def signature_of(model: type[Record], of_a_run: Collection[str] = ()) -> Signature:
    """Return the signature of a function with a parameter for each setting of a model; None, the
    default of those `of_a_run`, leaves the setting to that run."""
    fields = model.model_fields
    alone: list[Parameter] = []
    for name in dict.fromkeys([*_FIRST, *fields]):
        if name in fields:
            alone.append(_parameter(len(alone), name, fields[name], name in of_a_run))
    extra: Any = {"position": len(alone), "title": "Config"}
    config = Parameter(
        CONFIG,
        Parameter.POSITIONAL_OR_KEYWORD,
        default=Field({}, description=_CONFIG_HELP, json_schema_extra=extra),
        annotation=dict[str, Any],
    )
    return Signature([config, *alone])


def _parameter(position: int, name: str, field: FieldInfo, is_of_a_run: bool) -> Parameter:
    """Return the parameter from which Prefect makes a setting's form field."""
    default = {} if field.default_factory else field.default  # settings, by themselves
    extra: Any = {"position": position, "title": name.replace("_", " ").title()}
    kinds = Field(discriminator=field.discriminator, title=extra["title"])
    annotation: Any = Annotated[(field.annotation, kinds, *field.metadata)]
    if name == "environment":
        # The model also takes a path; the titles are those of the form's tabs.
        kind = Annotated[annotation, Field(title="Kind")]
        annotation = kind | Annotated[str, Field(title="Path of a Python file")]
    if is_of_a_run:  # the form submits every field: its default must not override the run's
        default = None
        annotation = annotation | Annotated[None, Field(title="As in its run")]
    return Parameter(
        name,
        Parameter.KEYWORD_ONLY,
        default=Field(default, description=field.description, json_schema_extra=extra),
        annotation=annotation,
    )
