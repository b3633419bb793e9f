"""Contenders over real HTTP: how they are asked, what they cost, what is asked for only once."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from precis.benchmark.client import ContenderClient
from precis.benchmark.contender import ContenderSpec, hosted_contender, local_contender
from precis.benchmark.lineup import serve_baselines, serve_rehearsed
from precis.benchmark.measure import Attempt, measure
from precis.benchmark.run import estimate_cost
from precis.config import (
    BenchmarkConfig,
    ContenderConfig,
    DocumentsConfig,
    JudgeConfig,
    RolloutsConfig,
)
from precis.environments.protocol import Environment
from precis.environments.recorder import Recorder
from precis.environments.summaries.baselines import telegraph
from precis.environments.summaries.environment import Summaries
from precis.environments.summaries.judge import Answer, Scored, Verdict
from precis.environments.summaries.judge.client import KeptVerdicts
from precis.errors import ConfigError, StaleAdapter
from precis.llm.budget import Budget, PaidOnce
from precis.llm.server import ApiError, ChatRequest, Choice, completions_app
from precis.records.documents import Corpus, Document, read_documents
from precis.records.ledger import Ledger, write_ledger
from precis.records.rollout import Scenario, Score, Split, Unscored
from precis.records.spend import Spend
from precis.rehearsal.checkpoint_files import initial_state, save
from precis.rehearsal.extractive.kind import SENTENCES
from precis.run.checkpoints import commit
from precis.statistics.standings import Contender
from precis.store import open_store
from precis.store.kept import KeptRecords
from tests.support.bridges import document
from tests.support.environments import services
from tests.support.local_server import serving
from tests.support.provider import Provider

KEYS = {"CONTENDER_API_KEY": "sk-secret-key", "OPENROUTER_API_KEY": "sk-or"}
DOCUMENTS = [document(number) for number in range(4)]


@pytest.fixture
def provider() -> Provider:
    return Provider()


@pytest.fixture
async def url(provider: Provider) -> AsyncIterator[str]:
    async with serving(completions_app(provider, lambda: ["m"], "sk-secret-key")) as address:
        yield f"{address}/v1"


def entry(url: str, **settings: Any) -> ContenderSpec:
    known = {"provider": "url", "model": "m", "backoff_s": 0.001, "prices": (1.0, 10.0)}
    config = ContenderConfig.model_validate({**known, "base_url": url, **settings})
    return hosted_contender(config, KEYS)


class Judge:
    """Rules that everything is right; `asked` counts how often."""

    def __init__(self) -> None:
        self.asked, self.identity, self.spend = 0, {"model": "m"}, Spend()

    async def score(self, document: Document, summary: str) -> Verdict:
        self.asked += 1
        return Scored((Answer(document.questions[0].id, "the mayor", True, True),))


def environment(
    judge: Judge | None = None,
    *,
    documents: Sequence[Document] = DOCUMENTS,
    kept: KeptRecords | None = None,
    dry: bool = False,
) -> Summaries:
    asked: Any = judge or Judge()
    config = JudgeConfig(provider="google")
    verdicts = KeptVerdicts(asked, config, 350, PaidOnce(kept, Budget(None), dry))
    corpus = Corpus((), tuple(documents))
    return Summaries(corpus, RolloutsConfig(), services(asked), verdicts=verdicts)


ONE = DOCUMENTS[:1]


def asking(
    of: ContenderSpec,
    *,
    kept: KeptRecords | None = None,
    budget: Budget | None = None,
    dry: bool = False,
) -> ContenderClient:
    return ContenderClient(of, RolloutsConfig(), budget or Budget(None), kept, dry)


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[KeptRecords]:
    kept = KeptRecords(open_store(str(folder)))
    await kept.open()
    yield kept


def texts(found: Sequence[Attempt]) -> list[str]:
    return [one.rollout.text for one in found]


def failing(*statuses: int) -> Callable[[ChatRequest], Choice]:
    """Answers these statuses first, and then well."""
    left = list(statuses)

    def answer(request: ChatRequest) -> Choice:
        if left:
            raise ApiError(left.pop(0), "not today", "code")
        return Choice("The mayor did.")

    return answer


async def attempts(
    contender: ContenderClient, of: Environment, scenarios: Sequence[Scenario] | None = None
) -> list[Attempt]:
    async with Recorder() as recorder:
        held_out = of.scenarios("validation") if scenarios is None else scenarios
        return await measure(recorder, contender, of, held_out)


def causes(found: Sequence[Attempt]) -> list[str]:
    return [one.rollout.score.cause for one in found if one.rollout.score.cause]


@pytest.mark.parametrize(
    ("settings", "sent"),
    [
        ({}, {"temperature": 0.0, "max_tokens": 764}),
        (
            {"reasoning": True, "reasoning_effort": "low", "thinking_tokens_max": 1000},
            {"max_completion_tokens": 1764, "reasoning_effort": "low"},
        ),
        (
            {"reasoning": True, "reasoning_effort": "low", "provider": "openrouter"},
            {"max_tokens": 764 + 8192, "reasoning": {"effort": "low"}},
        ),
    ],
)
async def test_a_reasoning_model_gets_no_temperature_and_room_to_think(
    settings: dict[str, Any], sent: dict[str, Any], url: str, provider: Provider
) -> None:
    keys = {**KEYS, "OPENROUTER_API_KEY": "sk-secret-key"}
    config = entry(url, **settings).settings.model_copy(update={"base_url": url})
    async with asking(hosted_contender(config, keys)) as contender:
        await attempts(contender, environment(documents=ONE))
    (request,) = provider.requests
    known = {"model", "messages"}
    assert request.model_dump(exclude_unset=True, exclude=known) == sent


def test_two_contenders_of_one_name_are_refused() -> None:
    with pytest.raises(ValidationError, match="two contenders are called gpt-4o"):
        BenchmarkConfig(hosted=("gpt-4o",), contenders=(ContenderConfig(model="openai/gpt-4o"),))


async def test_a_rejected_contender_is_asked_no_more_and_its_key_is_not_told(
    url: str, provider: Provider
) -> None:
    provider.answer = failing(*[401] * 9)
    async with asking(entry(url, limits={"in_flight": 1})) as contender:
        found = await attempts(contender, environment())
        asked = len(provider.requests)
        (again,) = await attempts(contender, environment(documents=ONE))
    assert set(causes(found)) == {"generation_rejected"}
    score = again.rollout.score
    assert isinstance(score, Unscored) and len(provider.requests) == asked < 2 * len(DOCUMENTS)
    assert "CONTENDER_API_KEY" in score.detail and "contender 'm'" in score.detail
    assert "sk-secret-key" not in score.detail


async def test_a_model_that_only_thinks_has_no_summary_and_no_zero(
    url: str, provider: Provider
) -> None:
    provider.answer = lambda request: Choice("", finish_reason="length")
    async with asking(entry(url, reasoning=True, tries_max=1)) as contender:
        found = await attempts(contender, environment(documents=ONE))
    assert causes(found) == ["generation_truncated"]


async def test_mere_words_score_zero_and_what_a_judge_would_pay_for_them_is_known(
    url: str, provider: Provider
) -> None:
    bundled = read_documents(DocumentsConfig(source="bundled"))[0]
    provider.answer = lambda request: Choice(telegraph(bundled.text, 350))
    judge = Judge()
    async with asking(entry(url)) as contender:
        (one,) = await attempts(contender, environment(judge, documents=[bundled]))
    score = one.rollout.score
    assert isinstance(score, Score) and (score.reward, judge.asked) == (0, 1)
    assert (score.metrics["not_prose"], score.metrics["answered"]) == (1, 1)


async def test_another_checkpoint_than_the_one_asked_for_is_an_error(
    url: str, provider: Provider
) -> None:
    provider.serves_as = "m@3"
    trained = local_contender(Contender("trained", 4), "m@4", url, "sk-secret-key", in_flight=2)
    async with asking(trained) as contender:
        with pytest.raises(StaleAdapter, match="'m@3' answered where 'm@4'"):
            await attempts(contender, environment())


async def test_what_was_paid_for_is_paid_for_once(
    url: str, provider: Provider, tmp_path: Path
) -> None:
    judge = Judge()
    for night in (1, 2):
        async with opened(tmp_path) as kept, asking(entry(url), kept=kept) as contender:
            found = await attempts(contender, environment(judge, kept=kept))
        assert texts(found) == ["The mayor did."] * 4
        assert [one.kept for one in found] == [night == 2] * 4
    assert (len(provider.requests), judge.asked) == (4, 4)
    for file in (tmp_path / "kept" / "replies").iterdir():
        file.write_text('{"body": {"half')
    async with opened(tmp_path) as kept, asking(entry(url), kept=kept) as contender:
        assert causes(await attempts(contender, environment(judge, kept=kept))) == []
    assert len(provider.requests) == 8, "a damaged record is asked for again"


async def test_only_what_changed_is_asked_for_anew(
    url: str, provider: Provider, tmp_path: Path
) -> None:
    judge = Judge()
    changed = replace(DOCUMENTS[0], text="The mayor closed the bridge.")
    requests = []
    async with opened(tmp_path) as kept:
        for of, documents in [
            (entry(url), DOCUMENTS),
            (entry(url), [changed, *DOCUMENTS[1:]]),
            (entry(url, reasoning=True), ONE),
            (replace(entry(url), identity="another checkpoint"), ONE),
        ]:
            before = len(provider.requests)
            async with asking(of, kept=kept) as contender:
                await attempts(contender, environment(judge, documents=documents, kept=kept))
            requests.append(len(provider.requests) - before)
    assert requests == [4, 1, 1, 1]
    assert judge.asked == 5


async def test_each_turn_of_an_agent_is_paid_for_once(
    url: str, provider: Provider, tmp_path: Path
) -> None:
    """Where a game is cut off after two of its turns, the next one goes on from there; and two that
    are played at the same time and begin alike are asked for once."""

    class Talk(Environment):
        turns = 2

        def scenarios(self, split: Split) -> Sequence[Scenario]:
            return [Scenario("a"), Scenario("b")]

        async def rollout(self, model: Any, scenario: Scenario) -> float:
            messages: list[Any] = [{"role": "user", "content": "Who?"}]
            for _ in range(self.turns):
                reply = await model.openai_client().chat.completions.create(
                    model=model.get_inference_name(), messages=messages
                )
                messages.append({"role": "assistant", "content": reply.choices[0].message.content})
            return 1.0

    talk = Talk()
    for turns, asked, is_kept in ((2, 2, False), (3, 3, False), (3, 3, True)):
        talk.turns = turns
        async with opened(tmp_path) as kept, asking(entry(url), kept=kept) as contender:
            one, other = await attempts(contender, talk)
        assert len(other.rollout.calls) == turns
        assert (len(one.rollout.calls), len(provider.requests)) == (turns, asked)
        # Either may be the one that asks, and the other then finds the reply kept.
        assert (one.kept and other.kept) == is_kept


async def test_a_failure_is_never_kept(url: str, provider: Provider, tmp_path: Path) -> None:
    provider.answer = failing(503)
    one = environment(documents=ONE)
    async with opened(tmp_path) as kept, asking(entry(url, tries_max=1), kept=kept) as contender:
        assert causes(await attempts(contender, one)) == ["generation_server_error"]
        assert causes(await attempts(contender, one)) == []
        assert [found.kept for found in await attempts(contender, one)] == [True]


async def test_the_budget_holds_and_what_it_leaves_over_is_no_zero(url: str) -> None:
    of = entry(url, limits={"in_flight": 4}, prices=(0.0, 1000.0))
    budget = Budget(2.0)
    async with asking(of, budget=budget) as contender:
        found = await attempts(contender, environment())
    # A request may cost up to 0.764 $ and costs 0.003: not all four fit at the same time, but one
    # after the other they do.
    assert causes(found) == [] and budget.usd == pytest.approx(0.012)
    budget = Budget(0.7695)
    async with asking(of, budget=budget) as contender:
        found = await attempts(contender, environment())
    assert causes(found) == ["budget", "budget"]
    assert budget.usd <= 0.7695


async def test_the_forecast_counts_what_is_missing_and_names_what_has_no_price(
    url: str, provider: Provider, tmp_path: Path
) -> None:
    unpriced = replace(entry(url), price=None, identity="x", contender=Contender("x"))
    async with opened(tmp_path) as kept:
        async with asking(entry(url), kept=kept) as contender:
            await attempts(contender, environment(documents=DOCUMENTS[:3], kept=kept))
        asked = len(provider.requests)
        async with (
            asking(entry(url), kept=kept, dry=True) as one,
            asking(unpriced, kept=kept, dry=True) as another,
            Recorder() as recorder,
        ):
            dry = environment(kept=kept, dry=True)
            ahead, scoring = await estimate_cost(recorder, [one, another], dry)
    assert ahead.figures == {"rollouts": 5, "kept": 3}
    assert "The price of x is not known." in str(ahead)
    assert scoring.figures["calls"] == 10
    assert "5 summaries are to be paid for, up to $" in str(ahead)
    assert ahead.usd == pytest.approx(764 * 10 / 1e6, rel=0.2)
    assert len(provider.requests) == asked, "a forecast has asked somebody"


async def test_a_rehearsed_model_takes_part_beside_the_others(tmp_path: Path) -> None:
    store, config = open_store(str(tmp_path / "store")), BenchmarkConfig(extractive="small")
    folder = save(tmp_path / "small", initial_state(SENTENCES.layout, 1), SENTENCES.layout)
    commit(store, "small", 0, folder, "digest", None)
    write_ledger(store, Ledger(model="small", config="digest", corpus="corpus"), None)
    one = environment(documents=ONE)
    async with (
        serve_rehearsed(store, config, "corpus") as (small,),
        asking(small) as contender,
    ):
        assert texts(await attempts(contender, one)) == [DOCUMENTS[0].text]
    with pytest.raises(ConfigError, match="other documents"):
        async with serve_rehearsed(store, config, "another corpus"):
            raise AssertionError("unreachable")


async def test_an_environments_own_baselines_take_part() -> None:
    one = environment(documents=ONE)
    async with serve_baselines(BenchmarkConfig(), one) as found:
        assert [str(each.contender) for each in found] == list(one.usual_baselines)
        async with asking(found[0]) as contender:
            assert texts(await attempts(contender, one)) == [DOCUMENTS[0].text]
    with pytest.raises(ConfigError, match=r"no baseline 'best'\. Give `baselines` some of empty"):
        async with serve_baselines(BenchmarkConfig(baselines=("best",)), one):
            raise AssertionError("unreachable")
