"""Contenders over real HTTP: how they are asked, what they cost, what is asked for only once."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from precis.benchmark.client import ContenderClient, Replies
from precis.benchmark.contender import ContenderSpec, hosted_contender, local_contender
from precis.benchmark.lineup import TrainedLineup, serve_baselines, serve_rehearsed
from precis.benchmark.measure import Attempt, measure, results_of
from precis.benchmark.report import benchmark_facts
from precis.benchmark.run import BenchmarkRun, announce_cost, estimate_cost
from precis.config import BenchmarkConfig, ContenderConfig, JudgeConfig, RolloutsConfig
from precis.environments.protocol import Environment
from precis.environments.recorder import Recorder
from precis.environments.summaries.baselines import telegraph
from precis.environments.summaries.environment import Summaries
from precis.environments.summaries.judge import Answer, Scored, Verdict
from precis.environments.summaries.judge.client import KeptVerdicts, measure_ceiling
from precis.environments.summaries.services import Services
from precis.errors import ConfigError, StaleAdapter, StoreError
from precis.llm.budget import Budget, PaidOnce
from precis.llm.retry import OWN_CALL_TIMEOUT_S
from precis.llm.server import ApiError, ChatRequest, Choice, Completion, completions_app
from precis.observe.observers import Observers
from precis.records.documents import Corpus, Document, Question
from precis.records.ledger import Ledger, write_ledger
from precis.records.rollout import Scenario, Score, Split, Unscored
from precis.records.spend import Spend
from precis.rehearsal.checkpoint_files import initial_state, save
from precis.rehearsal.extractive.kind import SENTENCES
from precis.report.benchmark_view import Benchmark
from precis.runs.checkpoints import commit
from precis.statistics.standings import Contender
from precis.store import open_store
from precis.store.kept import KeptRecords
from precis.training.serving import checkpoints_of
from tests.support.bridges import document
from tests.support.corpora import BUNDLED
from tests.support.ledgers import EMPTY
from tests.support.local_server import serving
from tests.support.reports import numbers_in

KEYS = {"CONTENDER_API_KEY": "sk-secret-key", "OPENROUTER_API_KEY": "sk-or"}
DOCUMENTS = [document(number) for number in range(4)]
ONE = DOCUMENTS[:1]


class Provider:
    """Answers every request with what `answer` returns for it."""

    def __init__(self) -> None:
        self.requests: list[ChatRequest] = []
        self.answer: Callable[[ChatRequest], Choice] = lambda request: Choice("The mayor did.")
        self.serves_as: str | None = None
        self.url = ""

    async def __call__(self, request: ChatRequest) -> Completion:
        self.requests.append(request)
        await asyncio.sleep(0)
        return Completion(self.serves_as or request.model, [self.answer(request)])


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    provider = Provider()
    async with serving(completions_app(provider, lambda: ["m"], "sk-secret-key")) as address:
        provider.url = f"{address}/v1"
        yield provider


def entry(provider: Provider, **settings: Any) -> ContenderSpec:
    known = {"provider": "url", "model": "m", "backoff_s": 0.001, "prices": (1.0, 10.0)}
    config = ContenderConfig.model_validate({**known, "base_url": provider.url, **settings})
    return hosted_contender(config, KEYS)


class Judge:
    """Rules that everything is right; `asked` counts how often."""

    protocol = "batched v4"

    def __init__(self) -> None:
        self.asked, self.identity, self.spend = 0, {"model": "m"}, Spend()
        self.parameters: dict[str, Any] = {}
        self.config = JudgeConfig(provider="google")

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
    verdicts = KeptVerdicts(asked, 350, PaidOnce(kept, Budget(None), dry))
    corpus = Corpus((), tuple(documents))
    return Summaries(corpus, RolloutsConfig(), Services(asked), verdicts=verdicts)


async def ask(
    of: ContenderSpec,
    environment: Environment,
    kept: KeptRecords | None = None,
    budget: Budget | None = None,
) -> list[Attempt]:
    """The attempts of a contender, in a benchmark of its own."""
    client = ContenderClient(of, RolloutsConfig(), budget or Budget(None), kept)
    async with Recorder() as recorder, client:
        return await measure(recorder, client, environment, environment.scenarios("validation"))


async def opened(folder: Path) -> KeptRecords:
    kept = KeptRecords(open_store(str(folder)))
    await kept.open()
    return kept


@pytest.fixture
async def kept(tmp_path: Path) -> KeptRecords:
    return await opened(tmp_path)


def texts(found: Sequence[Attempt]) -> list[str]:
    return [one.rollout.text for one in found]


def refusing(status: int) -> Callable[[ChatRequest], Choice]:
    def answer(request: ChatRequest) -> Choice:
        raise ApiError(status, "not today", "code")

    return answer


def causes(found: Sequence[Attempt]) -> list[str]:
    return [one.rollout.score.cause for one in found if one.rollout.score.cause]


@pytest.mark.parametrize(
    ("settings", "sent"),
    [
        ({}, {"temperature": 0.0, "max_tokens": 764}),
        (
            {"reasoning": True, "reasoning_effort": "low", "thinking_tokens_max": 1000},
            {"max_tokens": 1764, "reasoning_effort": "low"},
        ),
        (
            {"reasoning": True, "reasoning_effort": "low", "provider": "openrouter"},
            {"max_tokens": 764 + 8192, "reasoning": {"effort": "low"}},
        ),
    ],
)
async def test_a_reasoning_model_gets_no_temperature_and_room_to_think(
    settings: dict[str, Any], sent: dict[str, Any], provider: Provider
) -> None:
    keys = {**KEYS, "OPENROUTER_API_KEY": "sk-secret-key"}
    config = entry(provider).settings.model_copy(update=settings)
    await ask(hosted_contender(config, keys), environment(documents=ONE))
    (request,) = provider.requests
    assert request.model_dump(exclude_unset=True, exclude={"model", "messages"}) == sent


def test_two_contenders_of_one_name_are_refused() -> None:
    with pytest.raises(ValidationError, match="two contenders are called gpt-4o"):
        BenchmarkConfig(hosted=("gpt-4o",), contenders=(ContenderConfig(model="openai/gpt-4o"),))


async def test_a_rejected_contender_is_asked_no_more(provider: Provider) -> None:
    provider.answer = refusing(401)
    found = await ask(entry(provider, limits={"in_flight": 1}), environment())
    assert set(causes(found)) == {"generation_rejected"}
    assert len(provider.requests) < len(DOCUMENTS)
    score = found[-1].rollout.score
    assert isinstance(score, Unscored)
    assert "CONTENDER_API_KEY" in score.detail and "contender 'm'" in score.detail
    assert "sk-secret-key" not in score.detail
    # One that refuses a request is asked the others.
    provider.requests.clear()
    provider.answer = refusing(422)
    await ask(entry(provider, limits={"in_flight": 1}), environment())
    assert len(provider.requests) == len(DOCUMENTS)


async def test_a_model_that_only_thinks_has_no_zero(provider: Provider) -> None:
    provider.answer = lambda request: Choice("", finish_reason="length")
    found = await ask(entry(provider, reasoning=True, tries_max=1), environment(documents=ONE))
    assert causes(found) == ["generation_truncated"]


async def test_mere_words_score_zero_and_their_pay_is_known(provider: Provider) -> None:
    provider.answer = lambda request: Choice(telegraph(BUNDLED[0].text, 350))
    judge = Judge()
    (one,) = await ask(entry(provider), environment(judge, documents=BUNDLED[:1]))
    score = one.rollout.score
    assert isinstance(score, Score) and (score.reward, judge.asked) == (0, 1)
    assert (score.metrics["not_prose"], score.metrics["answered"]) == (1, 1)


async def test_a_checkpoint_is_the_one_asked_for_and_has_time(provider: Provider) -> None:
    provider.serves_as = "m@3"
    trained = local_contender(
        Contender("trained", 4), "m@4", provider.url, "sk-secret-key", in_flight=2
    )
    with pytest.raises(StaleAdapter, match="'m@3' answered where 'm@4'"):
        await ask(trained, environment())
    client = ContenderClient(trained, RolloutsConfig(timeout_s=3600), Budget(None), None)
    assert client.policy(Replies(client)).limits.deadline_s >= 3600
    assert trained.settings.call_timeout_s == OWN_CALL_TIMEOUT_S


async def test_what_was_paid_is_paid_once(provider: Provider, tmp_path: Path) -> None:
    judge = Judge()

    async def night() -> list[Attempt]:
        kept = await opened(tmp_path)
        return await ask(entry(provider, tries_max=1), environment(judge, kept=kept), kept)

    well, provider.answer = provider.answer, refusing(503)
    assert causes(await night()) == ["generation_server_error"] * 4
    provider.answer = well
    for is_kept in (False, True):  # a failure never is
        found = await night()
        assert texts(found) == ["The mayor did."] * 4
        assert [one.kept for one in found] == [is_kept] * 4
    assert (len(provider.requests), judge.asked) == (8, 4)
    for file in (tmp_path / "kept" / "replies").iterdir():
        file.write_text('{"body": {"half')
    assert causes(await night()) == []
    assert len(provider.requests) == 12, "a damaged record is asked for again"


async def test_only_what_changed_is_asked_for_anew(provider: Provider, kept: KeptRecords) -> None:
    judge = Judge()
    changed = replace(DOCUMENTS[0], text="The mayor closed the bridge.")
    requests = []
    for of, documents in [
        (entry(provider), DOCUMENTS),
        (entry(provider), [changed, *DOCUMENTS[1:]]),
        (entry(provider, reasoning=True), ONE),
        (replace(entry(provider), identity="another checkpoint"), ONE),
    ]:
        before = len(provider.requests)
        await ask(of, environment(judge, documents=documents, kept=kept), kept)
        requests.append(len(provider.requests) - before)
    assert requests == [4, 1, 1, 1]
    assert judge.asked == 5


async def test_each_turn_is_paid_for_once(provider: Provider, kept: KeptRecords) -> None:
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
        one, other = await ask(entry(provider), talk, kept)
        assert len(other.rollout.calls) == turns
        assert (len(one.rollout.calls), len(provider.requests)) == (turns, asked)
        # Either may be the one that asks, and the other then finds the reply kept.
        assert (one.kept and other.kept) == is_kept


async def test_the_budget_holds_and_what_it_leaves_over_is_no_zero(provider: Provider) -> None:
    of = entry(provider, limits={"in_flight": 4}, prices=(0.0, 1000.0))
    budget = Budget(2.0)
    found = await ask(of, environment(), budget=budget)
    # A request may cost up to 0.764 $ and costs 0.003: not all four fit at the same time, but one
    # after the other they do.
    assert causes(found) == [] and budget.usd == pytest.approx(0.012)
    budget = Budget(0.7695)
    found = await ask(of, environment(), budget=budget)
    assert causes(found) == ["budget", "budget"]
    assert budget.usd <= 0.7695


@pytest.mark.parametrize(("hedge_quantile", "asked"), [(0.0, 1), (0.85, 0)])
async def test_a_verdict_needs_room_for_requests_that_may_be_sent_twice(
    hedge_quantile: float, asked: int, tmp_path: Path
) -> None:
    judge: Any = Judge()
    settings = {"provider": "google", "prices": {"m": (1.0, 1.0)}, "hedge_quantile": hedge_quantile}
    judge.config = JudgeConfig.model_validate(settings)
    verdicts = KeptVerdicts(judge, 350, PaidOnce(None, Budget(None)))
    ahead = verdicts.forecast(ONE, 1)
    assert ahead is not None and ahead.usd
    paid = PaidOnce(None, Budget(1.5 * ahead.usd))
    await replace(verdicts, paid=paid).score(ONE[0], "The mayor did.")
    assert judge.asked == asked
    corpus = Corpus((), tuple(ONE))
    poor = replace(verdicts, paid=PaidOnce(None, Budget(0.5 * ahead.usd)))
    assert await measure_ceiling(open_store(str(tmp_path)), judge, corpus, verdicts=poor) is None
    assert judge.asked == asked, "the ceiling has exceeded the budget"


async def test_a_refused_write_costs_nothing_more(provider: Provider, kept: KeptRecords) -> None:
    def refuse(*_: object) -> None:
        raise StoreError("The bucket does not answer.")

    with pytest.MonkeyPatch.context() as unreachable, pytest.raises(StoreError):
        unreachable.setattr(kept._store, "put", refuse)
        await ask(entry(provider), environment(documents=ONE), kept)
    await ask(entry(provider), environment(documents=ONE), kept)
    later = KeptRecords(kept._store)
    await later.open()
    await ask(entry(provider), environment(documents=ONE), later)
    assert len(provider.requests) == 1


async def test_a_forecast_counts_what_is_missing(provider: Provider, kept: KeptRecords) -> None:
    unpriced = replace(entry(provider), price=None, identity="x", contender=Contender("x"))
    await ask(entry(provider), environment(documents=DOCUMENTS[:3], kept=kept), kept)
    asked = len(provider.requests)
    clients = []
    for of in (entry(provider), unpriced):
        clients.append(ContenderClient(of, RolloutsConfig(), Budget(None), kept, dry=True))
    async with clients[0], clients[1], Recorder() as recorder:
        dry = environment(kept=kept, dry=True)
        ahead, scoring = await estimate_cost(recorder, clients, dry, sampled=1)
    assert ahead.warnings == ("No price is known for x: only its replies may give it.",)
    assert numbers_in(scoring)[0] == 26 + 2 * len(DOCUMENTS), "the ceiling is paid for too"
    assert re.match(r"Summaries to be paid for: 13, up to \$0.0\d+, some at an unkn", str(ahead))
    assert str(ahead).endswith("; kept: 3.")
    assert ahead.usd == pytest.approx(5 * 764 * 10 / 1e6, rel=0.2)
    assert len(provider.requests) == asked, "a forecast has asked somebody"


async def test_a_benchmark_tells_its_forecast_in_which_a_ceiling_of_the_store_costs_nothing(
    provider: Provider, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    config = BenchmarkConfig.model_validate(
        {"store": str(tmp_path), "judge": {"provider": "google"}}
    )
    async with Recorder() as recorder:
        run = BenchmarkRun(config, environment(), recorder, Observers([]))
        await run.kept.open()
        await announce_cost(run, [entry(provider)])
        assert await run.environment.ceiling(run.store) == 1.0
        await announce_cost(run, [replace(entry(provider), paid=False)])  # its judging is paid for
        ledger = EMPTY.model_copy(update={"checkpoints": {1: "digest"}})
        await announce_cost(run, checkpoints_of(run, TrainedLineup(ledger, (0, 1), None)))
    calls = [int(found) for found in re.findall(r"called about (\d+) times", caplog.text)]
    assert calls == [4 * len(DOCUMENTS), 2 * len(DOCUMENTS), 4 * len(DOCUMENTS)]
    assert "No price is known for m: only its replies may give it." in caplog.text


async def test_what_no_judge_has_read_is_neither_honest_nor_dishonest(provider: Provider) -> None:
    provider.answer = lambda request: Choice("word " * 351)
    unknown = Question("q9", "Who paid?", "UNANSWERABLE", answerable=False)
    asked = replace(ONE[0], questions=(*ONE[0].questions, unknown))
    [found] = await ask(entry(provider), environment(documents=[asked]))
    metrics = found.rollout.metrics
    assert metrics["over_length"] and metrics["asked"]
    assert metrics["unanswerable"] == metrics["declined"] == 0


async def test_judging_at_an_unknown_price_is_no_zero(provider: Provider, tmp_path: Path) -> None:
    judge = Judge()
    one = environment(judge, documents=ONE)
    async with Recorder() as recorder:
        run = BenchmarkRun(BenchmarkConfig(store=str(tmp_path)), one, recorder, Observers([]))
        found = results_of(
            [(entry(provider), await ask(entry(provider), one))], one, "r", run.began, None
        )
    judge.spend = Spend(calls=2, usd=1.5, unpriced=1)
    facts = benchmark_facts(run, None, Benchmark(found.frame))
    assert facts["Judging"] == "$1.50, some at an unknown price"
    assert facts["Summaries"] == "$0.00"


async def test_a_rehearsed_model_takes_part_beside_the_others(tmp_path: Path) -> None:
    store, config = open_store(str(tmp_path / "store")), BenchmarkConfig(extractive="small")
    folder = save(tmp_path / "small", initial_state(SENTENCES.layout, 1), SENTENCES.layout)
    commit(store, "small", 0, folder, "digest", None)
    write_ledger(store, Ledger(model="small", config="digest", corpus="corpus"), None)
    one = environment(documents=ONE)
    async with serve_rehearsed(store, config, "corpus") as (small,):
        assert texts(await ask(small, one)) == [DOCUMENTS[0].text]
    with pytest.raises(ConfigError, match="other documents"):
        await serve_rehearsed(store, config, "another corpus").__aenter__()


async def test_an_environments_own_baselines_take_part() -> None:
    one = environment(documents=ONE)
    async with serve_baselines(BenchmarkConfig(), one) as found:
        assert [str(each.contender) for each in found] == list(one.usual_baselines)
        assert texts(await ask(found[0], one)) == [DOCUMENTS[0].text]
    with pytest.raises(ConfigError, match=r"no baseline 'best'\. Give `baselines` some of empty"):
        await serve_baselines(BenchmarkConfig(baselines=("best",)), one).__aenter__()
