"""Rented machines outside a run: taken down one by one, or swept."""

from prefect import task

from precis.cluster import api
from precis.cluster.sweep import Swept, down_cluster, sweep
from precis.environment import private_home
from precis.errors import ClusterError
from precis.settings.cluster import ClusterSweepConfig, DownConfig
from tasks.policy import RETRIED


@task(name="take down machine", task_run_name="take down machine of {config.model}", **RETRIED)
async def take_down(config: DownConfig) -> str:
    """Take a model's machine down; its name."""
    home = private_home()
    return await down_cluster(config.model, config.store, home, force=config.force)


@task(name="sweep machines", **RETRIED)
async def sweep_machines(config: ClusterSweepConfig) -> list[Swept]:
    """Take down what no live run holds.

    Raises:
        ClusterError: a machine could not be dealt with; the others were.
    """
    if not api.is_installed():
        return []  # nothing was rented from here
    swept = await sweep(private_home(), config.spare_hours)
    failed = [f"{one.cluster} ({one.why})" for one in swept if one.done == "failed"]
    if failed:
        raise ClusterError(f"Could not be swept: {', '.join(failed)}. Look at `sky status`.")
    return swept
