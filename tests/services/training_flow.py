"""The training flow, run in this process or as a program whose services a test chooses."""

from functools import partial
from typing import TYPE_CHECKING, Any

from precis.config import TrainConfig
from precis.processes.child import Launch

if TYPE_CHECKING:
    from tests.services.conftest import Precis


def train_with(launch: Launch) -> Any:
    """The training flow as users run it, but for how its services are started."""
    from prefect import flow  # takes seconds, too long where tests are only collected

    from flows.train import run_training
    from tasks.parameters import named, takes_settings
    from tasks.states import says_why_it_stops

    @flow(
        name="train",
        flow_run_name=named("train {model} to step {steps}"),
        validate_parameters=False,
    )
    @says_why_it_stops
    @takes_settings(TrainConfig)
    async def train(config: TrainConfig) -> Any:
        return await run_training(config, launch)

    return train


async def train_here(precis: "Precis", config: dict[str, Any], **environment: str) -> Any:
    """Train with all services in this process, against the server; the state that it comes to."""
    import prefect.settings as known
    import pytest
    from prefect.flow_runs import apause_flow_run

    import tasks.training
    from tests.support.in_process import in_process

    settings = {
        known.PREFECT_API_URL: precis.api,
        known.PREFECT_API_AUTH_STRING: precis.environment["PREFECT_API_AUTH_STRING"],
        known.PREFECT_HOME: precis.home / "prefect",
    }
    with pytest.MonkeyPatch.context() as patch, known.temporary_settings(settings):
        for name, value in environment.items():
            patch.setenv(name, value)
        # As often as ever, but sooner.
        for stage in (tasks.training.gather_rollouts, tasks.training.commit_step):
            patch.setattr(stage, "retry_delay_seconds", [0.1])
        patch.setattr(tasks.training, "apause_flow_run", partial(apause_flow_run, poll_interval=1))
        train = train_with(in_process)
        return await train(TrainConfig.model_validate(config), return_state=True)
