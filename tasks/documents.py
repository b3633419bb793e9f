"""Reading the corpus."""

import asyncio

from prefect import task

from precis.benchmark.measure import with_settings_of_its_run
from precis.config import BenchmarkConfig, RunConfig
from precis.records.documents import Corpus, load_corpus, load_others
from precis.store import open_store
from tasks.policy import RETRIED


@task(name="load documents", task_run_name="load documents: {config.documents.source}", **RETRIED)
async def load_documents(config: RunConfig) -> Corpus:
    """Read the corpus and split it into training and held-out documents."""
    return await asyncio.to_thread(load_corpus, config.documents)


@task(name="load test documents", task_run_name="load test documents of {config.model}", **RETRIED)
async def load_test_documents(config: BenchmarkConfig) -> Corpus:
    """Read what a benchmark is made on: documents of its own, or those held out from training."""
    if config.test_documents is not None:
        return await asyncio.to_thread(load_others, config.test_documents)
    return await asyncio.to_thread(load_corpus, config.documents)


@task(name="look up run", task_run_name="look up the run of {config.model}", **RETRIED)
async def look_up_run(config: BenchmarkConfig) -> BenchmarkConfig:
    """The benchmark's settings, those that were not given taken from the model's run."""
    return await asyncio.to_thread(with_settings_of_its_run, config, open_store(config.store))
