"""Reading the corpus."""

import asyncio

from prefect import task

from precis.config import RunConfig
from precis.documents import Corpus, load_corpus
from tasks.policy import RETRIED


@task(name="load documents", task_run_name="load documents: {config.documents.source}", **RETRIED)
async def load_documents(config: RunConfig) -> Corpus:
    """Read the corpus and split it into training and held-out documents."""
    return await asyncio.to_thread(load_corpus, config.documents)
