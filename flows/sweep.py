"""The sweep: a training run for each combination of settings and each seed, ranked with
intervals."""

import asyncio
from contextlib import suppress

from prefect import flow
from prefect.exceptions import Pause

import flows  # noqa: F401  a worker loads this file alone
from precis.sweep.trials import SweepConfig
from tasks.parameters import named, takes_settings
from tasks.secrets import adopt_secrets
from tasks.states import says_why_it_stops
from tasks.sweep import prepare_trials, publish_ranking, run_trial


@flow(name="sweep", flow_run_name=named("sweep {name}"), validate_parameters=False)
@says_why_it_stops
@takes_settings(SweepConfig)
async def sweep(config: SweepConfig) -> str:
    """Train with every combination of settings and every seed, and rank them.

    Returns the report's address.
    """
    await adopt_secrets()
    trials = await prepare_trials(config)
    running = [asyncio.ensure_future(run_trial(config, trial)) for trial in trials]
    for ended in asyncio.as_completed(running):
        # Until all have ended: the flow's end, as at a result that can't be read, cancels the
        # others. But a signal to end may arrive in any of them.
        with suppress(Exception, Pause):
            await ended
    return await publish_ranking(config, await asyncio.gather(*running))
