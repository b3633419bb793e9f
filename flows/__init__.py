"""The flows: one a file, each a table of contents of its steps; and what Prefect, as of 3.9.1, does
with a flow run that ours must not suffer."""

from contextlib import AbstractAsyncContextManager
from functools import partial
from uuid import UUID

from prefect import flow_engine
from prefect._internal import _observation_delivery
from prefect.concurrency._leases import amaintain_concurrency_lease
from prefect.utilities.services import critical_service_loop


def _hold_slot(lease: UUID, seconds: float, **_: bool) -> AbstractAsyncContextManager[None]:
    """Hold a run's slot of its deployment's limit, for as long as the server knows of it.

    Prefect cancels a run that has lost its slot: minutes after a pause, which frees it, and after a
    restart of the server, which forgets it. Models are guarded by leases of ours.
    """
    return amaintain_concurrency_lease(lease, seconds, suppress_warnings=True)


flow_engine.amaintain_concurrency_lease = _hold_slot  # type: ignore[assignment, attr-defined]
# After three looks in vain, in half a minute, it would never again see that a run is cancelled.
_observation_delivery.critical_service_loop = partial(  # type: ignore[attr-defined]
    critical_service_loop, consecutive=10_000
)
