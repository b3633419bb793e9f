"""What a run needs to be up, as Prefect's tasks."""

from prefect import task

from precis.cluster.site import TrainerAddress, TrainerHost
from precis.config import RunConfig
from precis.records.documents import Corpus
from precis.training import opening
from tasks.policy import RETRIED


@task(name="load documents", task_run_name="load documents of {config.model}", **RETRIED)
async def load_documents(config: RunConfig) -> Corpus:
    """Read the corpus, split into training and held-out documents, or a benchmark's own."""
    return await opening.read_documents(config)


@task(name="start trainer", task_run_name="start trainer of {config.model}", **RETRIED)
async def start_trainer(config: RunConfig, host: TrainerHost) -> TrainerAddress:
    """Bring the trainer up where it is to run."""
    return await opening.start_trainer(config, host)
