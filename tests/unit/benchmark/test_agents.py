"""Contenders that play an agent's games, over real HTTP."""

import json
import signal
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from precis import __version__
from precis.benchmark.client import ContenderClient
from precis.benchmark.contender import hosted_contender
from precis.benchmark.lineup import RANDOM, play_randomly
from precis.benchmark.measure import measure, results_of
from precis.benchmark.report import publish, store_report
from precis.benchmark.run import BenchmarkRun, compare, line_up, open_benchmark, serve_others
from precis.config import BenchmarkConfig, ContenderConfig, RolloutsConfig
from precis.environments.python import load_python
from precis.environments.recorder import Recorder
from precis.errors import ConfigError, RolloutError
from precis.llm.budget import Budget
from precis.llm.server import ChatRequest, Choice, Completion, completions_app
from precis.records.nouns import REWARD, Figure
from precis.records.results import scan_results
from precis.report.benchmark_view import Benchmark
from precis.report.wording import Words
from precis.settings.environment import PythonSettings
from precis.store import open_store
from precis.store.kept import KeptRecords
from precis.training.serving import CheckpointServer, measure_all, measure_contender
from precis.version import code_commit
from tests.support import echoing
from tests.support.dying_store import Killed, MortalStore
from tests.support.examples import EXAMPLES
from tests.support.local_server import serving
from tests.support.runs import NOW

pytestmark = pytest.mark.usefixtures("undrawn")

BOARDS = 2
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


def benchmark_of(folder: Path, source: str, **settings: Any) -> BenchmarkConfig:
    """A benchmark of an agent's file alone, without a trained model."""
    file = folder / "agent.py"
    file.write_text(source)
    given = {"checkpoints": "none", "environment": str(file), "store": str(folder / "store")}
    return BenchmarkConfig.model_validate(given | settings)


def opened(config: BenchmarkConfig) -> AbstractAsyncContextManager[BenchmarkRun]:
    assert isinstance(config.environment, PythonSettings)
    return open_benchmark(config, load_python(config.environment.file))


class Hosted:
    """Somebody's model, which plays randomly; keeps what it was asked."""

    def __init__(self) -> None:
        self.requests: list[ChatRequest] = []

    async def __call__(self, asked: ChatRequest) -> Completion:
        self.requests.append(asked)
        number = len(self.requests) if asked.temperature else 0
        return await play_randomly(asked.model_copy(update={"seed": number}))


async def no_ceiling(_: BenchmarkRun) -> None:
    return None


async def test_a_hosted_model_plays_greedily_and_is_sampled_for_pass_at_k(tmp_path: Path) -> None:
    game = load_python(str(EXAMPLES / "tic_tac_toe.py"))
    held_out = game.scenarios("validation")[:BOARDS]
    hosted = Hosted()
    store = open_store(str(tmp_path))
    kept = KeptRecords(store)
    await kept.open()
    async with serving(completions_app(hosted, lambda: ["m"], KEY)) as url, Recorder() as recorder:
        config = ContenderConfig(provider="url", base_url=f"{url}/v1", model="m", prices=(1.0, 4.0))
        spec = hosted_contender(config, {"CONTENDER_API_KEY": KEY})
        async with ContenderClient(spec, RolloutsConfig(), Budget(None), kept) as client:
            attempts = await measure(recorder, client, game, held_out, sampled=SAMPLED)
            asked = len(hosted.requests)
            again = await measure(recorder, client, game, held_out, sampled=SAMPLED)
    assert len(attempts) == BOARDS * (1 + SAMPLED)
    sampled = sum(len(one.rollout.calls) for one in attempts if one.rollout.index)
    assert sum(one.temperature == 1.0 for one in hosted.requests) == sampled, "each is its own"
    assert {one.temperature for one in hosted.requests} == {0.0, 1.0}
    assert {one.seed for one in hosted.requests} == {None}, "not every provider takes one"
    assert len(hosted.requests) == asked, "a reply was paid for twice"
    assert [one.rollout.score for one in again] == [one.rollout.score for one in attempts]

    measured = results_of([(spec, attempts)], game, "a-night", NOW, None)
    assert len(measured.frame) == BOARDS
    assert set(measured.frame["code_version"]) == {code_commit() or __version__}
    assert sorted(measured.attempts["attempt"].unique()) == [1, 2, 3, 4]
    for rows, temperature in ((measured.frame, 0.0), (measured.attempts, 1.0)):
        (sent,) = rows["parameters"].unique()
        assert json.loads(sent)["temperature"] == temperature
    words = Words(game.nouns, measured.figure.name, measured.figure.is_share)
    benchmark = Benchmark(measured.frame, words=words, attempts=measured.attempts)
    assert {"pass@1", "pass@2", "pass@4"} <= set(benchmark.columns)
    is_lost = (pl.col("scenario_id") == held_out[0].id) & (pl.col("attempt") == 1)
    cause = pl.when(is_lost).then(pl.lit("timeout")).otherwise("cause")
    fewer = replace(benchmark, attempts=measured.attempts.with_columns(cause=cause))
    for k, is_of_fewer in ((2, False), (4, True)):
        ((_, shown),) = fewer.columns[f"pass@{k}"].items()
        assert shown.endswith(f"(of {BOARDS - 1})") == is_of_fewer, "the others have k attempts"
    for night in ("a-night", "another"):
        store_report(store, "m", night, "m/benchmarks/0000/", benchmark, night)
        assert pl.read_parquet(tmp_path / f"m/attempts/{night}.parquet").equals(measured.attempts)
    for place, said in ((".", "another"), ("a-night", "a-night"), ("another", "another")):
        folder = tmp_path / "m/benchmarks/0000" / place
        assert (folder / "report.html").read_text() == said
        assert (folder / "results.parquet").exists()
        assert pl.read_parquet(folder / "attempts.parquet").equals(measured.attempts)
    with pytest.raises(Killed):
        killed = MortalStore(tmp_path, writes=7)
        store_report(killed, "m", "killed", "m/benchmarks/0000/", benchmark, "killed")
    rows = scan_results(store, "m").collect()
    assert len(rows) == 2 * BOARDS, "with a sampled attempt, or of a benchmark that has failed"


async def test_a_random_player_picks_from_all_calls_and_by_the_seed_alone() -> None:
    async def picked(**given: Any) -> Choice:
        messages = [{"role": "user", "content": "The lamp is red. [left]"}]
        asked = ChatRequest(model=RANDOM, messages=messages, tools=[echoing.PRESS], **given)
        (choice,) = (await play_randomly(asked)).choices
        return choice

    first = [await picked(seed=seed) for seed in range(20)]
    assert len({one.tool_calls[0].arguments for one in first}) == 3
    assert first == [await picked(seed=seed) for seed in range(20)]
    uncalled = await picked(tool_choice="none")
    assert (uncalled.content, uncalled.tool_calls) == ("[left]", ())


async def test_a_benchmark_in_which_nobody_takes_part_is_refused(tmp_path: Path) -> None:
    config = benchmark_of(tmp_path, TEXT_ALONE)
    async with opened(config) as run, serve_others(run) as others:
        assert [one.contender.model for one in others] == [RANDOM]
        with pytest.raises(ConfigError, match="has no contender"):
            await measure_all(run, None, others, measure_contender, no_ceiling)


async def test_a_baseline_that_is_called_like_a_hosted_model_is_refused_before_anything_is_paid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONTENDER_API_KEY", KEY)
    source = f"{TEXT_ALONE}\ndef baselines():\n    return {{'m': None}}\n"
    hosted = ContenderConfig(provider="url", base_url="http://127.0.0.1:9/v1", model="m")
    async with opened(benchmark_of(tmp_path, source, contenders=[hosted])) as run:
        with pytest.raises(ConfigError, match="A baseline and another contender are called m"):
            await serve_others(run).__aenter__()


async def test_a_failed_baseline_says_why(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    source = f"""{TEXT_ALONE}
async def fails(asked):
    return dict()["heads"]

async def says(asked):
    return "heads"

def baselines():
    return dict(fails=fails, says=says)
"""
    async with opened(benchmark_of(tmp_path, source)) as run, serve_others(run) as others:
        for one in others[:2]:
            await measure_contender(run, one)
    assert f"(400: KeyError: 'heads' ({tmp_path}/agent.py, line 11))." in caplog.text
    assert "(400: TypeError: it returned a str, not a Completion)." in caplog.text
    assert "API_KEY" not in caplog.text


async def test_a_benchmark_names_whom_it_could_not_measure_and_fails_without_anybody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("CONTENDER_API_KEY", KEY)
    refuses = 'if model.get_inference_name() == "m":\n        raise ValueError("no such coin")'
    source = WINS_ALONE.replace("asked =", f"{refuses}\n    asked =", 1)
    async with serving(completions_app(Hosted(), lambda: ["m"], KEY)) as url:
        hosted = {"provider": "url", "base_url": f"{url}/v1", "model": "m", "prices": (1, 4)}
        given = {"contenders": [hosted], "rollouts": {"unscored_share_max": 1}}
        config = benchmark_of(tmp_path, source, **given)
        async with opened(config) as run, serve_others(run) as both:
            measured = await measure_all(run, None, both, measure_contender, no_ceiling)
            assert "m: 2 of 2 rollouts have no score. The first: ValueError: no" in caplog.text
            report, _ = await publish(run, None, measured, compare(run, measured), tmp_path)
            assert report.incomplete == "Too much is unscored to rank m (2 agent_failed)."
            others = [one for one in both if one.contender.model == "m"]
            with pytest.raises(RolloutError, match=r"2 of 2 rollouts have no score .*no such coin"):
                await measure_all(run, None, others, measure_contender, no_ceiling)


async def test_sigterm_that_comes_while_an_agent_plays_ends_the_benchmark(tmp_path: Path) -> None:
    """It is no error of the agent's, though Prefect's handler raises where the signal comes."""

    class Told(BaseException):
        pass

    def tell(*_: object) -> None:
        raise Told

    ends = "import os, signal\n    os.kill(os.getpid(), signal.SIGTERM)"
    killed = TEXT_ALONE.replace("asked =", f"{ends}\n    asked =", 1)
    before = signal.signal(signal.SIGTERM, tell)
    try:
        with pytest.raises(Told):
            async with opened(benchmark_of(tmp_path, killed)) as run, serve_others(run) as others:
                await measure_all(run, None, others, measure_contender, no_ceiling)
    finally:
        signal.signal(signal.SIGTERM, before)


async def test_a_benchmark_measures_as_the_run_of_its_checkpoints(tmp_path: Path) -> None:
    """Its first validation may have had no win, and its curve is drawn with the benchmark's."""
    config = benchmark_of(tmp_path, WINS_ALONE.replace("range(2)", "range(9)"))
    nothing: Any = SimpleNamespace()  # no checkpoint takes part in the measurement
    checkpoints = CheckpointServer(nothing, nothing, nothing, "reward")
    async with opened(config) as run, serve_others(run) as others:
        measured = await measure_all(run, checkpoints, others, measure_contender, no_ceiling)
        alone = await measure_all(run, None, others, measure_contender, no_ceiling)
    assert measured.figure == Figure("reward", REWARD)
    assert alone.figure.name == "success rate"
    assert alone.frame["text"].n_unique() == 2, "chance picked the same in all, which are alike"
    assert not set(measured.frame["protocol"]) & set(alone.frame["protocol"]), "not comparable"
    run.machine_usd = 1.5
    await publish(run, None, alone, compare(run, alone), tmp_path)
    page = run.store.get(f"{run.name}/benchmarks/0000/report.html")
    assert page is not None and "$1.50" in page.data.decode()


async def test_attempts_are_for_agents(tmp_path: Path) -> None:
    """Which the model's run alone may say, so a benchmark of an agent need not name its file."""
    agent = benchmark_of(tmp_path, WINS_ALONE, attempts=4)
    async with opened(agent) as run:
        assert await line_up(run) is None
        run.config = agent.model_copy(update={"environment": BenchmarkConfig().environment})
        with pytest.raises(ConfigError, match="attempts is for agents"):
            await line_up(run)
