"""Sampling: what becomes of rollouts that go well, badly, or not at all."""

import threading
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from precis.benchmark.client import ContenderClient
from precis.benchmark.contender import local_contender
from precis.benchmark.measure import measure
from precis.config import RolloutsConfig
from precis.environments.recorder import Recorder
from precis.environments.summaries import environment as environment_module
from precis.environments.summaries import rewards
from precis.environments.summaries.environment import Summaries
from precis.environments.summaries.judge import Verdict
from precis.environments.summaries.prompt import scenario_of
from precis.errors import TrainerError, TrainerLost
from precis.llm.budget import Budget
from precis.llm.providers import Endpoint
from precis.llm.server import completions_app
from precis.records.documents import Corpus, Document
from precis.records.rollout import Rollout, Scenario
from precis.rollouts.sample import (
    adapter_policy,
    draw_batch,
    draw_spares,
    sample_each,
    sample_groups,
    sample_seed,
    sampled,
)
from precis.statistics.standings import Contender
from tests.support.environments import summaries
from tests.support.local_server import serving
from tests.support.rollouts import DOCUMENT, SCENARIO, scored
from tests.support.scripted_policy import ScriptedPolicy

CORPUS = Corpus((DOCUMENT,), ())
HELD_OUT = Corpus((), (DOCUMENT,))


class Judge:
    """Rules as it is told to."""

    def __init__(self, rule: Callable[[str], Verdict] = lambda _: scored(True)) -> None:
        self.rule = rule
        self.asked = 0
        self.identity = {"model": "second"}

    async def score(self, document: Document, summary: str) -> Verdict:
        self.asked += 1
        return self.rule(summary)


@pytest.fixture
def policy() -> ScriptedPolicy:
    scripted = ScriptedPolicy(lambda request: f"The mayor {request.seed}.")
    scripted.model = "m@0"
    return scripted


@pytest.fixture
async def server(policy: ScriptedPolicy) -> AsyncIterator[Endpoint]:
    async with serving(completions_app(policy, lambda: ["m"], "none")) as address:
        yield Endpoint(f"{address}/v1", "m@0", "none", role="policy m@0")


def config(**settings: Any) -> RolloutsConfig:
    return RolloutsConfig.model_validate({"rollouts_per_group": 4, "scored_min": 3, **settings})


async def gather(
    server: Endpoint,
    environment: Summaries,
    settings: RolloutsConfig | None = None,
    scenarios: Sequence[Scenario] = (SCENARIO,),
    spares: Sequence[Scenario] = (),
) -> list[list[Rollout]]:
    """The groups of a step."""
    settings = settings or config()
    async with Recorder() as recorder, adapter_policy(server, 0, settings) as greedy:
        policy = sampled(greedy, 1, 0, settings.temperature)
        return await sample_groups(recorder, policy, environment, scenarios, settings, spares)


async def roll_out(server: Endpoint, environment: Summaries) -> Rollout:
    """One greedy rollout of the document."""
    async with Recorder() as recorder, adapter_policy(server, 0, config()) as policy:
        (found,) = await sample_each(recorder, policy, environment, [SCENARIO], config())
    return found


async def test_a_step_samples_the_same_in_any_order(server: Endpoint) -> None:
    found = []
    for slots in (1, 64):
        (group,) = await gather(server, summaries(CORPUS, Judge()), config(in_flight=slots))
        found.append([one.text for one in group])
    assert found[0] == found[1]
    assert len(set(found[0])) == 4


async def test_a_scenario_twice_in_a_step_is_sampled_anew(server: Endpoint) -> None:
    groups = await gather(server, summaries(CORPUS, Judge()), scenarios=(SCENARIO, SCENARIO))
    rollouts = [one for group in groups for one in group]
    assert [one.index for one in rollouts] == list(range(8))
    assert len({one.text for one in rollouts}) == 8


async def test_a_summary_is_measured_apart_from_the_event_loop(
    server: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a document of 20,000 words that takes seconds, in which no rollout is answered."""
    threads = set()

    def disqualify(*given: Any) -> Any:
        threads.add(threading.current_thread())
        return rewards.disqualify(*given)

    monkeypatch.setattr(environment_module, "disqualify", disqualify)
    await roll_out(server, summaries(HELD_OUT, Judge()))
    assert threads and threading.main_thread() not in threads


async def test_validation_is_greedy_and_sends_the_request_that_a_benchmark_sends(
    server: Endpoint, policy: ScriptedPolicy
) -> None:
    environment = summaries(HELD_OUT, Judge())
    await roll_out(server, environment)
    spec = local_contender(
        Contender("trained", 0),
        "m@0",
        server.base_url,
        server.api_key,
        in_flight=2,
    )
    async with (
        ContenderClient(spec, RolloutsConfig(), Budget(None), None) as contender,
        Recorder() as recorder,
    ):
        await measure(recorder, contender, environment, environment.scenarios("validation"))
    validated, benchmarked = policy.requests
    assert validated.temperature == 0
    assert validated == benchmarked


@pytest.mark.parametrize(
    ("summary", "cause"),
    [("word " * 351, "over_length"), ("", "empty"), ("мэр открыл новый мост", "wrong_script")],
)
async def test_a_disqualified_summary_scores_zero_without_asking_the_judge(
    server: Endpoint, policy: ScriptedPolicy, summary: str, cause: str
) -> None:
    policy.say = lambda _: summary
    judge = Judge()
    found = await roll_out(server, summaries(CORPUS, judge))
    assert (found.metrics[cause], found.reward, judge.asked) == (1.0, 0.0, 0)


async def test_what_the_judge_finds_no_prose_scores_zero(server: Endpoint) -> None:
    def refusing(_: str) -> Verdict:
        return replace(scored(True), is_prose=False)

    for judge, second in ((Judge(refusing), Judge()), (Judge(), Judge(refusing))):
        found = await roll_out(server, summaries(HELD_OUT, judge, second=second))
        by_first = judge.rule is refusing
        assert found.reward == (0.0 if by_first else 1.0)
        assert found.metrics["judged_not_prose"] == float(by_first)
        assert found.metrics["prose"] == float(not by_first)
        assert found.metrics["second_correct"] == float(by_first)


async def test_a_wrong_key_stops_the_step_and_is_not_told(server: Endpoint) -> None:
    stranger = replace(server, api_key="sk-secret-key")
    with pytest.raises(TrainerError, match="m@0 can't be asked") as raised:
        await roll_out(stranger, summaries(CORPUS, Judge()))
    assert not isinstance(raised.value, TrainerLost)
    assert "sk-secret-key" not in str(raised.value)


class ByDocument(Judge):
    """Right for every second seed, or for none where the document is called `flat…`."""

    async def score(self, document: Document, summary: str) -> Verdict:
        is_even = summary.endswith(("0.", "2.", "4.", "6.", "8."))
        return scored(is_even and not document.id.startswith("flat"))


@pytest.mark.parametrize(
    ("names", "spares", "taken"),
    [
        (("a", "b"), ("c", "d"), ("a", "b")),
        (("flat", "b"), ("c", "d"), ("flat", "b", "c")),
        (("flat", "flat2"), ("c", "d", "e"), ("flat", "flat2", "c", "d")),
        (("flat", "b"), ("flat2", "flat3", "c", "d"), ("flat", "b", "flat2", "flat3", "c")),
        (("flat", "flat2"), ("flat3",), ("flat", "flat2", "flat3")),
        (("flat", "b"), (), ("flat", "b")),
    ],
)
async def test_a_group_without_variance_is_made_up_for_by_the_next_scenario(
    names: tuple[str, ...],
    spares: tuple[str, ...],
    taken: tuple[str, ...],
    server: Endpoint,
) -> None:
    documents = []
    for name in (*names, *spares):
        documents.append(Document(name, "t", f"The {name} bridge.", DOCUMENT.questions))
    environment = summaries(Corpus(tuple(documents), ()), ByDocument())
    scenarios = list(map(scenario_of, documents))
    drawn, more = scenarios[: len(names)], scenarios[len(names) :]
    for slots in (1, 64):
        settings = config(in_flight=slots, rollouts_per_group=8)
        groups = await gather(server, environment, settings, drawn, more)
        assert tuple(group[0].scenario.id for group in groups) == taken


SCENARIOS = tuple(Scenario(f"s{number}") for number in range(8))


def test_a_run_of_another_seed_draws_and_samples_otherwise() -> None:
    assert draw_batch(SCENARIOS, 1, 7, 3) != draw_batch(SCENARIOS, 2, 7, 3)
    calls = list(product((1, 2), (0, 1), SCENARIOS[:2], (0, 1), (0, 1)))
    seeds = {sample_seed(*call) for call in calls}
    assert len(seeds) == len(calls), "two calls of a step, or of two runs, are sampled alike"


def test_a_step_s_spares_follow_from_seed_and_step_and_are_not_of_its_batch() -> None:
    batch = draw_batch(SCENARIOS, 1, 3, 2)
    spares = draw_spares(SCENARIOS, 1, 3, 2, 4)
    assert spares == draw_spares(SCENARIOS, 1, 3, 2, 4)
    assert not set(spares) & set(batch)
    assert spares[:2] == draw_spares(SCENARIOS, 1, 3, 2, 2)
    assert spares != draw_spares(SCENARIOS, 1, 4, 2, 4)
    assert len(draw_spares(SCENARIOS, 1, 3, 2, 10_000)) == len(SCENARIOS) - 2
    assert draw_spares(SCENARIOS, 1, 3, 2, 0) == ()
