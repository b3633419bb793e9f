"""Contenders over real HTTP: how they are asked, what they cost, what is asked for only once."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import ValidationError

from precis.benchmark.cache import ResultCache
from precis.benchmark.client import ContenderClient
from precis.benchmark.contender import (
    ContenderSpec,
    hosted_contender,
    local_contender,
    parameters_of,
)
from precis.benchmark.extractive import serve_rehearsed
from precis.benchmark.forecast import estimate_cost
from precis.benchmark.measure import measure
from precis.benchmark.presets import PRESETS, endpoint_of
from precis.benchmark.referee import BenchmarkJudge
from precis.config import BenchmarkConfig, ContenderConfig, DocumentsConfig, JudgeConfig
from precis.environments.summaries.baselines import telegraph
from precis.environments.summaries.judge import Answer, JudgeClient, Scored, Unscored, Verdict
from precis.environments.summaries.task import Summarizing
from precis.errors import BudgetReached, ConfigError, StaleAdapter
from precis.llm.budget import Budget
from precis.llm.loop_server import LoopServer
from precis.llm.server import ApiError, ChatRequest, Choice, completions_app
from precis.records.documents import Document, Question, read_documents
from precis.records.ledger import Ledger, write_ledger
from precis.records.spend import Price, Spend, price_of
from precis.records.summary import JudgedSummary, Summary
from precis.rehearsal.checkpoint_files import initial_state, save
from precis.rehearsal.extractive.kind import SENTENCES
from precis.run.checkpoints import commit
from precis.statistics.standings import Contender
from precis.store import open_store
from tests.support.provider import Provider

TASK = Summarizing(350)

KEYS = {"CONTENDER_API_KEY": "sk-secret-key", "OPENROUTER_API_KEY": "sk-or"}
DOCUMENTS = [
    Document(
        f"d{n}",
        "News",
        f"The mayor opened bridge {n}.",
        (Question(f"q{n}", "Who?", "the mayor", True),),
    )
    for n in range(4)
]


@pytest.fixture
def provider() -> Provider:
    return Provider()


@pytest.fixture
async def url(provider: Provider) -> AsyncIterator[str]:
    server = LoopServer(completions_app(provider, lambda: ["m"], "sk-secret-key"))
    await server.start()
    yield f"http://127.0.0.1:{server.port}/v1"
    await server.stop()


def failing(*statuses: int) -> Callable[[ChatRequest], Choice]:
    """Answers these statuses first, and then well."""
    left = list(statuses)

    def answer(request: ChatRequest) -> Choice:
        if left:
            raise ApiError(left.pop(0), "not today", "code")
        return Choice("The mayor did.")

    return answer


def entry(url: str, **settings: Any) -> ContenderSpec:
    known = {"provider": "url", "model": "m", "backoff_s": 0.001, "prices": (1.0, 10.0)}
    config = ContenderConfig.model_validate({**known, "base_url": url, **settings})
    return hosted_contender(config, KEYS, tokens_max=TASK.tokens_max)


@asynccontextmanager
async def writer(
    of: ContenderSpec, *, kept: ResultCache | None = None, budget: Budget | None = None
) -> AsyncIterator[ContenderClient]:
    async with ContenderClient(of, TASK, budget or Budget(None), kept) as opened:
        yield opened


class Judge:
    """Rules that everything is right; `asked` counts how often."""

    def __init__(self) -> None:
        self.asked, self.identity, self.spend = 0, {"model": "m"}, Spend()

    async def score(self, document: Document, summary: str) -> Verdict:
        self.asked += 1
        return Scored((Answer(document.questions[0].id, "the mayor", True, True),))


def referee(
    judge: Judge, kept: ResultCache | None = None, budget: Budget | None = None
) -> BenchmarkJudge:
    asked = cast(JudgeClient, judge)
    return BenchmarkJudge(asked, JudgeConfig(), TASK, budget or Budget(None), kept)


async def opened(folder: Path) -> ResultCache:
    kept = ResultCache(open_store(str(folder)))
    await kept.open()
    return kept


def texts(outcomes: list[JudgedSummary]) -> list[str | None]:
    return [one.summary.text if one.summary else None for one in outcomes]


async def test_a_summary_says_what_it_took(url: str) -> None:
    async with writer(entry(url)) as asked:
        written = await asked.write(DOCUMENTS[0])
    assert isinstance(written, Summary)
    assert (written.text, written.finish, written.completion_tokens) == (
        "The mayor did.",
        "stop",
        3,
    )
    assert written.prompt_tokens is not None
    assert written.usd == pytest.approx((written.prompt_tokens * 1.0 + 3 * 10.0) / 1e6)


def test_a_reasoning_model_gets_no_temperature_and_room_to_think() -> None:
    plain = parameters_of(ContenderConfig(model="x"), TASK.tokens_max)
    thinking = {"reasoning": True, "reasoning_effort": "low", "thinking_tokens_max": 1000}
    routed = ContenderConfig.model_validate({"model": "x", **thinking})
    direct = routed.model_copy(update={"provider": "openai"})
    assert plain == {"temperature": 0.0, "max_tokens": 764}
    assert parameters_of(routed, 764) == {
        "max_tokens": 1764,
        "reasoning": {"effort": "low"},
    }
    assert parameters_of(direct, 764) == {
        "max_completion_tokens": 1764,
        "reasoning_effort": "low",
    }


def test_every_preset_has_an_endpoint_and_a_price() -> None:
    for name, preset in PRESETS.items():
        assert endpoint_of(preset, KEYS).base_url == "https://openrouter.ai/api/v1"
        assert price_of(preset.model) is not None, name


@pytest.mark.parametrize(
    ("provider", "variable"), [("openrouter", "OPENROUTER_API_KEY"), ("openai", "OPENAI_API_KEY")]
)
def test_a_missing_key_is_named_before_anything_is_asked(provider: str, variable: str) -> None:
    config = ContenderConfig.model_validate({"model": "openai/gpt-4o", "provider": provider})
    with pytest.raises(ConfigError, match=f"'gpt-4o' needs a key: .* from {variable}"):
        endpoint_of(config, {})


def test_two_contenders_of_one_name_are_refused() -> None:
    with pytest.raises(ValidationError, match="two contenders are called gpt-4o"):
        BenchmarkConfig(hosted=("gpt-4o",), contenders=(ContenderConfig(model="openai/gpt-4o"),))


async def test_what_fails_is_tried_again_and_then_unscored(url: str, provider: Provider) -> None:
    provider.answer = failing(500, 429)
    async with writer(entry(url)) as asked:
        assert isinstance(await asked.write(DOCUMENTS[0]), Summary)
    provider.answer = failing(*[503] * 3)
    async with writer(entry(url, tries_max=3)) as asked:
        lost = await asked.write(DOCUMENTS[0])
    assert isinstance(lost, Unscored) and lost.cause == "generation_server_error"
    assert len(provider.requests) == 6


async def test_a_rejected_contender_is_asked_no_more_and_its_key_is_not_told(
    url: str, provider: Provider
) -> None:
    provider.answer = failing(*[401] * 9)
    async with writer(entry(url, limits={"in_flight": 1})) as asked:
        outcomes = await measure(asked, referee(Judge()), DOCUMENTS)
        again = await asked.write(DOCUMENTS[0])
    assert {cast(Unscored, one.verdict).cause for one in outcomes} == {"generation_rejected"}
    assert isinstance(again, Unscored)
    assert "CONTENDER_API_KEY" in again.detail and "contender 'm'" in again.detail
    assert "sk-secret-key" not in again.detail
    assert len(provider.requests) <= len(DOCUMENTS)


async def test_a_model_that_only_thinks_has_no_summary_and_no_zero(
    url: str, provider: Provider
) -> None:
    provider.answer = lambda request: Choice("", finish_reason="length")
    async with writer(entry(url, reasoning=True, tries_max=1)) as asked:
        lost = await asked.write(DOCUMENTS[0])
    assert isinstance(lost, Unscored) and lost.cause == "generation_truncated"


async def test_an_empty_summary_is_a_zero_that_takes_no_judge(url: str, provider: Provider) -> None:
    provider.answer = lambda request: Choice("")
    judge = Judge()
    async with writer(entry(url)) as asked:
        (outcome,) = await measure(asked, referee(judge), DOCUMENTS[:1])
    assert (outcome.disqualified, judge.asked) == ("empty", 0)
    assert isinstance(outcome.verdict, Scored) and outcome.verdict.correct == 0


async def test_mere_words_score_zero_and_what_a_judge_would_pay_for_them_is_known(
    url: str, provider: Provider
) -> None:
    document = read_documents(DocumentsConfig(source="bundled"))[0]
    provider.answer = lambda request: Choice(telegraph(document.text, 350))
    judge = Judge()
    async with writer(entry(url)) as asked:
        (outcome,) = await measure(asked, referee(judge), [document])
    assert (outcome.disqualified, outcome.prose, outcome.reward, judge.asked) == (
        "not_prose",
        0.0,
        0.0,
        1,
    )
    assert isinstance(outcome.verdict, Scored) and outcome.verdict.correct == 1


async def test_another_checkpoint_than_the_one_asked_for_is_an_error(
    url: str, provider: Provider
) -> None:
    provider.serves_as = "m@3"
    trained = local_contender(
        Contender("trained", 4),
        "m@4",
        url,
        "sk-secret-key",
        tokens_max=TASK.tokens_max,
        in_flight=2,
    )
    async with writer(trained) as asked:
        with pytest.raises(StaleAdapter, match="'m@3' answered where 'm@4'"):
            await asked.write(DOCUMENTS[0])


async def test_what_was_paid_for_is_paid_for_once(
    url: str, provider: Provider, tmp_path: Path
) -> None:
    judge = Judge()
    for night in (1, 2):
        kept = await opened(tmp_path)
        async with writer(entry(url), kept=kept) as asked:
            outcomes = await measure(asked, referee(judge, kept), DOCUMENTS)
        assert texts(outcomes) == ["The mayor did."] * 4
        assert [one.kept for one in outcomes] == [night == 2] * 4
        kept.close()
    assert (len(provider.requests), judge.asked) == (4, 4)


async def test_only_what_changed_is_asked_for_anew(
    url: str, provider: Provider, tmp_path: Path
) -> None:
    kept, judge = await opened(tmp_path), Judge()
    changed = replace(DOCUMENTS[0], text="The mayor closed the bridge.")
    requests = []
    for of, documents in [
        (entry(url), DOCUMENTS),
        (entry(url), [changed, *DOCUMENTS[1:]]),
        (entry(url, reasoning=True), DOCUMENTS[:1]),
        (replace(entry(url), identity="another checkpoint"), DOCUMENTS[:1]),
    ]:
        before = len(provider.requests)
        async with writer(of, kept=kept) as asked:
            await measure(asked, referee(judge, kept), documents)
        requests.append(len(provider.requests) - before)
    assert requests == [4, 1, 1, 1]
    assert judge.asked == 5
    kept.close()


async def test_a_failure_is_never_kept(url: str, provider: Provider, tmp_path: Path) -> None:
    kept = await opened(tmp_path)
    provider.answer = failing(503)
    async with writer(entry(url, tries_max=1), kept=kept) as asked:
        assert isinstance(await asked.write(DOCUMENTS[0]), Unscored)
        assert await asked.find_kept(DOCUMENTS[0]) is None
        assert isinstance(await asked.write(DOCUMENTS[0]), Summary)
        assert await asked.find_kept(DOCUMENTS[0]) is not None
    kept.close()


async def test_a_damaged_record_is_asked_for_again(url: str, tmp_path: Path) -> None:
    kept = await opened(tmp_path)
    async with writer(entry(url), kept=kept) as asked:
        await asked.write(DOCUMENTS[0])
    kept.close()
    for file in (tmp_path / "kept" / "summaries").iterdir():
        file.write_text('{"text": "half')
    kept = await opened(tmp_path)
    async with writer(entry(url), kept=kept) as asked:
        assert await asked.find_kept(DOCUMENTS[0]) is None
        assert isinstance(await asked.write(DOCUMENTS[0]), Summary)
    kept.close()


async def test_the_budget_holds_and_what_it_leaves_over_is_no_zero(url: str) -> None:
    of = entry(url, limits={"in_flight": 4}, prices=(0.0, 1000.0))
    budget = Budget(2.0)
    async with writer(of, budget=budget) as asked:
        outcomes = await measure(asked, referee(Judge()), DOCUMENTS)
    causes = [one.verdict.cause for one in outcomes if isinstance(one.verdict, Unscored)]
    # A request may cost up to 0.764 $ and costs 0.003: not all four fit at the same time, but one
    # after the other they do.
    assert causes == [] and budget.usd == pytest.approx(0.012)
    budget = Budget(0.7695)
    async with writer(of, budget=budget) as asked:
        outcomes = await measure(asked, referee(Judge()), DOCUMENTS)
    causes = [one.verdict.cause for one in outcomes if isinstance(one.verdict, Unscored)]
    assert causes == ["budget", "budget"]
    assert budget.usd <= 0.7695


async def test_a_budget_counts_what_judging_costs() -> None:
    judged = [0.0]
    budget = Budget(1.0, lambda: judged[0])
    async with budget.reserve(0.9):
        judged[0] = 0.9
    with pytest.raises(BudgetReached, match=r"\$0\.90 of dollars_max \$1\.00"):
        async with budget.reserve(0.2):
            raise AssertionError("unreachable")


async def test_the_forecast_counts_what_is_missing_and_names_what_has_no_price(
    url: str, tmp_path: Path
) -> None:
    kept, judge = await opened(tmp_path), Judge()
    async with (
        writer(entry(url), kept=kept) as priced,
        writer(replace(entry(url, name="x"), price=None, identity="x"), kept=kept) as unpriced,
    ):
        await measure(priced, referee(judge, kept), DOCUMENTS[:3])
        config = JudgeConfig(provider="google")
        judged_by = referee(judge, kept)
        ahead = await estimate_cost([priced, unpriced], judged_by, DOCUMENTS, config, "m", TASK)
    assert (ahead.summaries, ahead.kept, ahead.unpriced) == (5, 3, ("x",))
    assert ahead.judging is not None and ahead.judging.calls == 10
    assert "5 summaries are to be paid for, about $" in str(ahead)
    assert ahead.usd == pytest.approx(466 * 10 / 1e6, rel=0.2)
    kept.close()


def test_prices_may_be_given() -> None:
    config = ContenderConfig(model="vendor/new", provider="openrouter", prices=(1.0, 2.0))
    assert hosted_contender(config, KEYS, 764).price == Price(1.0, 2.0)
    assert hosted_contender(ContenderConfig(model="vendor/new"), KEYS, 764).price is None


async def test_a_rehearsed_model_takes_part_beside_the_others(tmp_path: Path) -> None:
    store, config = open_store(str(tmp_path / "store")), BenchmarkConfig(extractive="small")
    folder = save(tmp_path / "small", initial_state(SENTENCES.layout, 1), SENTENCES.layout)
    commit(store, "small", 0, folder, "digest", None)
    write_ledger(store, Ledger(model="small", config="digest", corpus="corpus"), None)
    async with serve_rehearsed(store, config, TASK, "corpus") as (small,), writer(small) as asked:
        written = await asked.write(DOCUMENTS[0])
    assert isinstance(written, Summary) and written.text == DOCUMENTS[0].text
    with pytest.raises(ConfigError, match="other documents"):
        async with serve_rehearsed(store, config, TASK, "another corpus"):
            raise AssertionError("unreachable")
