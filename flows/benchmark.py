"""The benchmark flow: checkpoints, hosted models and baselines on the held-out documents."""

from functools import partial

from prefect import flow

from precis.config import BenchmarkConfig
from tasks.benchmark import (
    BenchmarkReport,
    foretell_cost,
    measure_all,
    publish_report,
)
from tasks.cluster import services
from tasks.documents import load_test_documents, look_up_run
from tasks.lineup import line_up, open_benchmark, with_trainer
from tasks.nightly import compare_nights
from tasks.parameters import named, takes_settings
from tasks.secrets import adopt_secrets
from tasks.states import says_why_it_stops


@flow(name="benchmark", flow_run_name=named("benchmark {model}"), validate_parameters=False)
@says_why_it_stops
@takes_settings(BenchmarkConfig)
async def benchmark(config: BenchmarkConfig) -> BenchmarkReport:
    """Compare a model's checkpoints with hosted models and baselines, and publish a report."""
    await adopt_secrets()
    config = await look_up_run(config)
    corpus = await load_test_documents(config)
    async with services(config) as up, open_benchmark(config, corpus, up) as round:
        await with_trainer(round, partial(line_up, round))
        await foretell_cost(round)
        await measure_all(round)
        await compare_nights(round)
        return await publish_report(round)
