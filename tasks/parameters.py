"""A flow's settings as its parameters: each can be given alone, over those of a deployment.

Prefect replaces the deployment's parameters by a run's one by one, without merging nested values.
So every setting is its own parameter, with its type and its help in the form, and we merge
`documents={"val_size": 8}` or `config={"steps": 3}` with the deployment's values.
"""

from collections.abc import Callable, Collection, Coroutine
from functools import wraps
from typing import Any, TypeVar

from prefect import get_client
from prefect.context import FlowRunContext
from prefect.exceptions import ObjectNotFound

from precis.record import Record
from precis.settings.overrides import CONFIG, Given, lay_over, take_apart
from precis.settings.parameters import settings_from, signature_of

C = TypeVar("C", bound=Record)
R = TypeVar("R")


def takes_settings(
    model: type[C], of_a_run: Collection[str] = ()
) -> Callable[[Callable[[C], Coroutine[Any, Any, R]]], Callable[..., Coroutine[Any, Any, R]]]:
    """Under `@flow(validate_parameters=False)`: let the flow take each setting of a model alone.

    From Python it also takes the whole model, as `config`. Settings `of_a_run` default to its own.
    """

    def decorate(
        flow: Callable[[C], Coroutine[Any, Any, R]],
    ) -> Callable[..., Coroutine[Any, Any, R]]:
        @wraps(flow)
        async def taking(config: C | Given | None = None, **settings: Any) -> R:
            if isinstance(config, model):
                return await flow(config)
            given: Given = {**settings, CONFIG: config or {}}
            return await flow(settings_from(model, await _over_deployment(model, given)))

        taking.__signature__ = signature_of(model, of_a_run)  # type: ignore[attr-defined]
        return taking

    return decorate


def named(template: str) -> Callable[[], str]:
    """Return a `flow_run_name` made from a run's settings."""

    def name() -> str:
        context = FlowRunContext.get()
        parameters = (context.parameters if context else None) or {}
        whole = parameters.get(CONFIG)  # the flow refuses what is no object
        inside = dict(whole) if isinstance(whole, dict | Record) else {}
        return template.format(**{**parameters, **inside})

    return name


async def _over_deployment(model: type[Record], given: Given) -> dict[str, Any]:
    """Merge a run's parameters with those of its deployment, if it has one."""
    context = FlowRunContext.get()
    run = context.flow_run if context else None
    if run is None or run.deployment_id is None:
        return take_apart(model, given)
    async with get_client() as client:
        try:
            deployed = (await client.read_deployment(run.deployment_id)).parameters
        except ObjectNotFound:  # deleted meanwhile
            deployed = {}
    # Without those that were deployed after the run was made.
    defaults = {name: deployed[name] for name in run.parameters if name in deployed}
    own = {}
    for name, value in run.parameters.items():
        if name not in defaults or defaults[name] != value:
            own[name] = value
    return lay_over(model, defaults, own)
