"""A flow's settings as its parameters: each can be given alone, over those of a deployment.

Prefect puts what a run is given in place of the deployment's parameters one by one, and looks
into none of them. So every setting is a parameter of its own, with its type and its help in the
form, and `documents={"val_size": 8}` or `config={"steps": 3}` are laid over what the deployment
says by us.
"""

from collections.abc import Callable, Coroutine
from functools import wraps
from inspect import Parameter, Signature
from typing import Annotated, Any, TypeVar

from prefect import get_client
from prefect.context import FlowRunContext
from prefect.exceptions import ObjectNotFound
from pydantic import Field, ValidationError
from pydantic.fields import FieldInfo

from precis.config import SEED_MAX, SEED_MIN
from precis.errors import ConfigError
from precis.record import Record
from precis.settings.overrides import CONFIG, Given, lay_over, take_apart
from precis.settings.problems import problems_in

C = TypeVar("C", bound=Record)
R = TypeVar("R")

_DEEPEST = 5
"""So many objects and lists are within each other in the settings."""
_CONFIG_HELP = """Any of these settings as one JSON object, for programs; it goes before those that
are given alone."""


def takes_settings(
    model: type[C],
) -> Callable[[Callable[[C], Coroutine[Any, Any, R]]], Callable[..., Coroutine[Any, Any, R]]]:
    """Under `@flow(validate_parameters=False)`: the flow takes each setting of a model alone.

    From Python it takes the model as a whole as well, as its `config`.
    """

    def decorate(
        flow: Callable[[C], Coroutine[Any, Any, R]],
    ) -> Callable[..., Coroutine[Any, Any, R]]:
        @wraps(flow)
        async def taking(config: C | Given | None = None, **settings: Any) -> R:
            if isinstance(config, model):
                return await flow(config)
            given: Given = {**settings, CONFIG: config or {}}
            return await flow(_validate(model, await _over_deployment(model, given)))

        taking.__signature__ = _signature(model)  # type: ignore[attr-defined]
        return taking

    return decorate


def named(template: str) -> Callable[[], str]:
    """A `flow_run_name` made from the settings that a run was given."""

    def name() -> str:
        context = FlowRunContext.get()
        parameters = (context.parameters if context else None) or {}
        return template.format(**{**parameters, **dict(parameters.get(CONFIG) or {})})

    return name


async def _over_deployment(model: type[Record], given: Given) -> dict[str, Any]:
    """What a run was given, laid over what its deployment says, if it has one."""
    context = FlowRunContext.get()
    run = context.flow_run if context else None
    if run is None or run.deployment_id is None:
        return take_apart(model, given)
    async with get_client() as client:
        try:
            deployed = (await client.read_deployment(run.deployment_id)).parameters
        except ObjectNotFound:  # deleted since
            deployed = {}
    own = {}
    for name, value in run.parameters.items():
        if name not in deployed or deployed[name] != value:
            own[name] = value
    return lay_over(model, deployed, own)


def _validate(model: type[C], settings: Given) -> C:
    try:
        return model.model_validate(settings)
    except ValidationError as error:
        problems = "; ".join(problems_in(error))
        raise ConfigError(f"Settings that can't work: {problems}.") from error


def _signature(model: type[Record]) -> Signature:
    fields = model.model_fields.items()
    alone = [_parameter(at, name, field) for at, (name, field) in enumerate(fields)]
    extra: Any = {"position": len(alone), "title": "Config", **_bound_numbers(_DEEPEST)}
    config = Parameter(
        CONFIG,
        Parameter.POSITIONAL_OR_KEYWORD,
        default=Field({}, description=" ".join(_CONFIG_HELP.split()), json_schema_extra=extra),
        annotation=dict[str, Any],
    )
    return Signature([config, *alone])


def _bound_numbers(depth: int) -> dict[str, Any]:
    """A schema for any JSON whose numbers a server can store, in objects and lists of a depth."""
    bounds = {"minimum": SEED_MIN, "maximum": SEED_MAX}
    within = _bound_numbers(depth - 1) if depth else bounds
    return {**bounds, "additionalProperties": within, "items": within}


def _parameter(position: int, name: str, field: FieldInfo) -> Parameter:
    """A setting as Prefect makes a field of the form of it."""
    default = {} if field.default_factory else field.default  # settings, by themselves
    extra: Any = {"position": position, "title": name.replace("_", " ").title()}
    shown = Field(default, description=field.description, json_schema_extra=extra)
    kinds = Field(discriminator=field.discriminator)
    return Parameter(
        name,
        Parameter.KEYWORD_ONLY,
        default=shown,
        annotation=Annotated[(field.annotation, kinds, *field.metadata)],
    )
