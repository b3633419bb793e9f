"""Contenders that play an agent's games, over real HTTP."""

import json
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from precis.benchmark.client import ContenderClient
from precis.benchmark.contender import ContenderSpec, hosted_contender
from precis.benchmark.lineup import RANDOM, play_randomly
from precis.benchmark.measure import Attempt, BenchmarkId, measure, results_of
from precis.benchmark.report import store_report
from precis.benchmark.run import BenchmarkRun, estimate_cost, open_benchmark, serve_others
from precis.config import BenchmarkConfig, ContenderConfig, RolloutsConfig
from precis.environments.protocol import Environment
from precis.environments.python import load_python
from precis.environments.recorder import Recorder
from precis.errors import ConfigError
from precis.llm.budget import Budget
from precis.llm.server import ChatRequest, Completion, completions_app
from precis.records.nouns import REWARD, Figure
from precis.records.results import scan_results
from precis.records.rollout import Score
from precis.report.benchmark_view import Benchmark
from precis.report.wording import Words
from precis.store import open_store
from precis.store.kept import KeptRecords
from precis.training.serving import CheckpointServer, measure_all, measure_contender
from tests.support import echoing
from tests.support.examples import EXAMPLES
from tests.support.local_server import serving

BOARDS = 4
SAMPLED = 4
KEY = "sk-secret-key"
TEXT_ALONE = """
async def rollout(model, scenario):
    asked = [{"role": "user", "content": "Say something."}]
    await model.openai_client().chat.completions.create(model="m", messages=asked)
    return True

def scenarios(split):
    return [{"id": split}]
"""


WINS_ALONE = """
from precis.environments.protocol import Score

async def rollout(model, scenario):
    asked = [{"role": "user", "content": "Say [heads] or [tails]."}]
    await model.openai_client().chat.completions.create(model="m", messages=asked)
    return Score(1.0, success=True) if scenario["id"] == "validation-0" else 0.2

def scenarios(split):
    return [{"id": f"{split}-{number}"} for number in range(2)]
"""


class Hosted:
    """Somebody's model, which plays randomly; counts what it was asked."""

    def __init__(self) -> None:
        self.temperatures: Counter[float] = Counter()
        self.seeds: list[int | None] = []

    async def __call__(self, asked: ChatRequest) -> Completion:
        self.temperatures[asked.temperature] += 1
        self.seeds.append(asked.seed)
        number = sum(self.temperatures.values()) if asked.temperature else 0
        return await play_randomly(asked.model_copy(update={"seed": number}))


@pytest.fixture(scope="module")
def game() -> Environment:
    return load_python(str(EXAMPLES / "tic_tac_toe.py"))


@pytest.fixture
def hosted() -> Hosted:
    return Hosted()


@pytest.fixture
async def spec(hosted: Hosted) -> AsyncIterator[ContenderSpec]:
    async with serving(completions_app(hosted, lambda: ["m"], KEY)) as url:
        config = ContenderConfig(provider="url", base_url=f"{url}/v1", model="m", prices=(1.0, 4.0))
        yield hosted_contender(config, {"CONTENDER_API_KEY": KEY})


async def no_ceiling(_: BenchmarkRun) -> None:
    return None


async def play(
    spec: ContenderSpec, game: Environment, kept: KeptRecords | None = None
) -> list[Attempt]:
    held_out = game.scenarios("validation")[:BOARDS]
    async with (
        Recorder() as recorder,
        ContenderClient(spec, RolloutsConfig(), Budget(None), kept) as client,
    ):
        return await measure(recorder, client, game, held_out, sampled=SAMPLED)


async def test_a_hosted_model_plays_once_greedily_and_is_sampled_for_pass_at_k(
    spec: ContenderSpec, game: Environment, hosted: Hosted, tmp_path: Path
) -> None:
    store = open_store(str(tmp_path))
    kept = KeptRecords(store)
    await kept.open()
    attempts = await play(spec, game, kept)
    assert len(attempts) == BOARDS * (1 + SAMPLED)
    assert set(hosted.temperatures) == {0.0, 1.0}
    assert hosted.seeds == [None] * len(hosted.seeds), "not every provider takes one"
    asked = hosted.temperatures.total()
    again = await play(spec, game, kept)
    assert hosted.temperatures.total() == asked, "a reply was paid for twice"
    assert [one.rollout.score for one in again] == [one.rollout.score for one in attempts]

    measured = results_of([(spec, attempts)], game, BenchmarkId.now(), None)
    assert len(measured.frame) == BOARDS
    assert sorted(measured.attempts["attempt"].unique()) == [1, 2, 3, 4]
    for rows, temperature in ((measured.frame, 0.0), (measured.attempts, 1.0)):
        (sent,) = rows["parameters"].unique()
        assert json.loads(sent)["temperature"] == temperature
    words = Words(game.nouns, measured.figure.name, measured.figure.is_share)
    benchmark = Benchmark(measured.frame, words=words, attempts=measured.attempts)
    shares = []
    for k in (1, 2, 4):
        (written,) = benchmark.columns[f"pass@{k}"].values()
        shares.append(float(written.partition("%")[0]))
    assert shares == sorted(shares)
    by_board: dict[str, list[bool]] = {}
    for one in attempts:
        if one.rollout.index and isinstance(one.rollout.score, Score):
            by_board.setdefault(one.rollout.scenario.id, []).append(bool(one.rollout.score.success))
    of_all = sum(map(any, by_board.values())) / len(by_board)
    assert shares[-1] == pytest.approx(100 * of_all, abs=0.06)
    store_report(store, "m", "a-night", "m/benchmarks/0000/", benchmark, "<page>")
    for key in ("m/attempts/a-night.parquet", "m/benchmarks/0000/attempts.parquet"):
        kept_rows = pl.read_parquet(tmp_path / key)
        assert kept_rows.equals(measured.attempts)
    assert len(scan_results(store, "m").collect()) == BOARDS, (
        "a sampled attempt is among the results"
    )
    (standing,) = benchmark.standings
    calls = [call for one in attempts if not one.rollout.index for call in one.rollout.calls]
    dollars = sum(call.usd or 0.0 for call in calls)
    assert dollars > 0 and standing.usd == pytest.approx(dollars)


async def test_the_forecast_counts_every_attempt(
    spec: ContenderSpec, game: Environment, hosted: Hosted, tmp_path: Path
) -> None:
    kept = KeptRecords(open_store(str(tmp_path)))
    await kept.open()
    async with (
        Recorder() as recorder,
        ContenderClient(spec, RolloutsConfig(), Budget(None), kept, dry=True) as client,
    ):
        ahead, *_ = await estimate_cost(recorder, [client], game, sampled=1)
    assert ahead.figures["rollouts"] == 2 * len(game.scenarios("validation"))
    assert not hosted.temperatures, "a forecast has asked somebody"


async def test_a_random_player_picks_from_all_calls_and_by_the_seed_alone() -> None:
    messages = [{"role": "user", "content": "The lamp is red."}]

    async def pressed(seed: int) -> str:
        asked = ChatRequest(model=RANDOM, messages=messages, tools=[echoing.PRESS], seed=seed)
        (choice,) = (await play_randomly(asked)).choices
        return choice.tool_calls[0].arguments

    first = [await pressed(seed) for seed in range(20)]
    assert len(set(first)) == 3
    assert first == [await pressed(seed) for seed in range(20)]
    uncalled = ChatRequest(
        model=RANDOM,
        messages=[{"role": "user", "content": "[left]"}],
        tools=[echoing.PRESS],
        tool_choice="none",
    )
    (choice,) = (await play_randomly(uncalled)).choices
    assert (choice.content, choice.tool_calls) == ("[left]", [])


async def test_a_benchmark_in_which_nobody_takes_part_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "text_alone.py"
    file.write_text(TEXT_ALONE)
    store = str(tmp_path / "store")
    config = BenchmarkConfig(checkpoints="none", environment=str(file), store=store)

    async with open_benchmark(config, load_python(str(file))) as run, serve_others(run) as others:
        assert [one.contender.model for one in others] == [RANDOM]
        with pytest.raises(ConfigError, match="Nobody takes part"):
            await measure_all(run, None, others, measure_contender, no_ceiling)


async def test_a_benchmark_measures_as_the_run_of_its_checkpoints(tmp_path: Path) -> None:
    """Its first validation may have had no win, and its curve is drawn with the benchmark's."""
    file = tmp_path / "coin.py"
    file.write_text(WINS_ALONE)
    store = str(tmp_path / "store")
    config = BenchmarkConfig(checkpoints="none", environment=str(file), store=store)
    nothing: Any = SimpleNamespace()  # no checkpoint takes part in the measurement
    checkpoints = CheckpointServer(nothing, nothing, 0, nothing, "reward")

    async with open_benchmark(config, load_python(str(file))) as run, serve_others(run) as others:
        measured = await measure_all(run, checkpoints, others, measure_contender, no_ceiling)
        alone = await measure_all(run, None, others, measure_contender, no_ceiling)
    assert measured.figure == Figure("reward", REWARD)
    assert alone.figure.name == "success rate"


def test_attempts_are_for_agents() -> None:
    with pytest.raises(ValueError, match="attempts is for agents"):
        BenchmarkConfig(attempts=4)
