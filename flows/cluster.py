"""Giving rented machines back: one by name, or all that no live run holds."""

from dataclasses import asdict

from prefect import flow
from prefect.artifacts import acreate_table_artifact
from prefect.logging import get_run_logger

from precis.cluster.sweep import Swept
from precis.settings.cluster import ClusterSweepConfig, DownConfig
from tasks.machines import sweep_machines, take_down
from tasks.parameters import named, takes_settings


@flow(
    name="cluster-down",
    flow_run_name=named("take down the machine of {model}"),
    validate_parameters=False,
)
@takes_settings(DownConfig)
async def cluster_down(config: DownConfig) -> None:
    """Take down the machine that was rented for a model."""
    name = await take_down(config)
    get_run_logger().info("The machine %s is gone.", name)


@flow(name="cluster-sweep", validate_parameters=False)
@takes_settings(ClusterSweepConfig)
async def cluster_sweep(config: ClusterSweepConfig) -> list[Swept]:
    """Take down every machine of ours that no live run holds."""
    swept = await sweep_machines(config)
    rows = [asdict(one) for one in swept]
    await acreate_table_artifact(key="machines", table=rows, description=f"{len(rows)} machines")
    return swept
