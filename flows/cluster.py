"""Taking down rented machines: one by name, or all that no live run holds."""

from dataclasses import asdict

from prefect import flow, task
from prefect.artifacts import acreate_table_artifact
from prefect.logging import get_run_logger

import flows  # noqa: F401  a worker loads this file alone
from precis.cluster import api
from precis.cluster.sweep import Swept, down_cluster, sweep
from precis.errors import ClusterError
from precis.settings.cluster import ClusterSweepConfig, DownConfig
from tasks.parameters import named, takes_settings
from tasks.policy import RETRIED
from tasks.states import says_why_it_stops


@flow(
    name="cluster-down",
    flow_run_name=named("take down the machine of {model}"),
    validate_parameters=False,
)
@says_why_it_stops
@takes_settings(DownConfig)
async def cluster_down(config: DownConfig) -> None:
    """Take down the machine that was rented for a model."""
    done = await take_down(config)
    get_run_logger().info("%s", done)


@flow(name="cluster-sweep", validate_parameters=False)
@says_why_it_stops
@takes_settings(ClusterSweepConfig)
async def cluster_sweep(config: ClusterSweepConfig) -> list[Swept]:
    """Take down every machine of ours that no live run holds."""
    swept = await sweep_machines(config)
    rows = list(map(asdict, swept))
    await acreate_table_artifact(key="machines", table=rows, description=f"{len(rows)} machines")
    return swept


@task(name="take down machine", task_run_name="take down machine of {config.model}", **RETRIED)
async def take_down(config: DownConfig) -> str:
    """Take a model's machine down; return a sentence on that."""
    return await down_cluster(config.model, config.store, force=config.force)


@task(name="sweep machines", **RETRIED)
async def sweep_machines(config: ClusterSweepConfig) -> list[Swept]:
    """Take down the machines that no live run holds. Raises ClusterError if a machine could not be
    taken down; the others were."""
    if not api.is_installed():
        return []  # nothing was rented from here
    swept = await sweep(config.spare_hours)
    failed = [f"{machine.cluster} ({machine.why})" for machine in swept if machine.done == "failed"]
    if failed:
        raise ClusterError(f"Could not be swept: {', '.join(failed)}.", "Look at `sky status`.")
    return swept
