"""The benchmark flow: every checkpoint and the baselines on the held-out documents."""

from prefect import flow

from precis.config import BenchmarkConfig
from tasks.benchmark import (
    BenchmarkReport,
    Round,
    line_up,
    measure_entry,
    measure_full,
    publish_report,
)
from tasks.cluster import services
from tasks.documents import load_documents


@flow(name="benchmark", flow_run_name="benchmark {config.model}")
async def benchmark(config: BenchmarkConfig) -> BenchmarkReport:
    """Compare a model's checkpoints with the baselines, and publish a report."""
    corpus = await load_documents(config)
    async with services(config) as up:
        round = Round(config, corpus, up)
        entries = await line_up(round)
        await measure_full(round)
        for entry in entries:
            await measure_entry(round, entry)
    return await publish_report(round)
