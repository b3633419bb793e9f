"""What a run says of its cost before it costs anything."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prefect.exceptions import ObjectNotFound

import tasks.preflight
from cli import rehearsal
from precis.config import BenchmarkConfig, TrainConfig
from precis.environments.demonstrations import WarmStart
from precis.environments.summaries.prompt import scenario_of
from precis.errors import ConfigError
from precis.records.documents import Corpus
from precis.records.spend import Estimate
from tasks.benchmark import look_up_run
from tasks.preflight import announce_cost
from tasks.training import load_documents
from tests.support.bridges import document
from tests.support.corpora import rows, source, write_jsonl
from tests.support.environments import summaries

DOCUMENTS = tuple(document(number) for number in range(4))


@pytest.mark.parametrize(("budget_usd", "lasts"), [(10.0, False), (1_000_000.0, True)])
async def test_a_budget_that_the_teacher_takes_is_told_not_to_last(
    budget_usd: float,
    lasts: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", "sk-none")
    price = 1_000_000  # a dollar for a token
    teacher = {"model": "m", "prices": (price, price)}
    warm_start = {"source": "teacher", "teacher": teacher}
    settings = {"store": str(tmp_path), "budget_usd": budget_usd, "warm_start": warm_start}
    environment = summaries(Corpus((), DOCUMENTS), None)
    environment.warm_start = WarmStart(tuple(map(scenario_of, DOCUMENTS)))
    await announce_cost.fn(TrainConfig.model_validate(settings), environment)
    assert ("will not last to the last step" in caplog.text) is not lasts


async def test_a_price_that_two_forecasts_lack_is_warned_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    unpriced = Estimate("About 8 calls.", None, ("No price is known for m.",))
    environment: Any = SimpleNamespace(forecasts=lambda config, step: [unpriced, unpriced])
    await announce_cost.fn(TrainConfig(store=str(tmp_path)), environment)
    assert caplog.text.count("No price is known for m.") == 1


async def test_a_benchmark_without_its_shared_limit_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its machine would be rented, and then Prefect would refuse the slots with a traceback."""

    class Server:
        async def read_global_concurrency_limit_by_name(self, name: str) -> None:
            raise ObjectNotFound(KeyError(name))

    monkeypatch.setattr(tasks.preflight, "get_client", lambda: nullcontext(Server()))
    config = BenchmarkConfig(store="s", checkpoints="none", judge_concurrency_limit="judge")
    with pytest.raises(ConfigError, match="There is no global concurrency limit 'judge'"):
        await look_up_run.fn(config)


async def test_omitted_documents_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    content = rows()
    for row in content[:2]:
        row["answer"] = "UNANSWERABLE"
    documents = source(write_jsonl(tmp_path / "c.jsonl", content), train_size=2)
    corpus = await load_documents.fn(TrainConfig(store="s", documents=documents))
    assert len(corpus.train) == 2
    (said,) = caplog.records
    assert said.getMessage() == "1 of 4 documents have no answerable question and are left out."
    assert said.name in rehearsal._SHOWN
