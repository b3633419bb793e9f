"""What a benchmark of an agent says beside the measure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from precis.benchmark.contender import local_contender
from precis.benchmark.measure import Attempt, results_of
from precis.benchmark.report import benchmark_facts
from precis.config import BenchmarkConfig
from precis.llm.budget import Budget
from precis.observe.samples import tell_benchmark
from precis.records.ledger import Origin
from precis.records.nouns import Figure, Nouns
from precis.records.results import SCHEMA
from precis.records.rollout import Rollout, Scenario, Score
from precis.records.spend import Spend
from precis.report.benchmark_charts import charts_of
from precis.report.benchmark_view import Benchmark
from precis.report.nights import compare_nights
from precis.report.page import benchmark_report, report_html
from precis.report.wording import Words
from precis.statistics.intervals import Difference, Interval, paired_difference, ratio_interval
from precis.statistics.standings import (
    Contender,
    count_with,
    figure_of,
    pass_at,
    success_of,
    turns_of_successes,
)
from tests.support.scripted_policy import Agent

pytestmark = pytest.mark.usefixtures("undrawn")

GAMES = Words(Nouns("game", "games", "board", "boards", success="win rate"), "win rate")
REWARDED = Words(GAMES.nouns, "reward", is_share=False)


def games(
    model: str, step: int | None, played: Sequence[Mapping[str, float]], measure: str = "success"
) -> pl.DataFrame:
    """A row for each game."""
    rows = []
    for number, metrics in enumerate(played):
        row = {
            **dict.fromkeys(SCHEMA, None),
            "model": model,
            "step": step,
            "scenario_id": f"board-{number}",
            "score": metrics[measure],
            "weight": 1.0,
            "metrics": json.dumps(metrics),
            "prompt_tokens": 40,
            "completion_tokens": 6,
            "usd": 0.002,
        }
        rows.append(row)
    return pl.DataFrame(rows, schema=SCHEMA)


def won(turns: float, **metrics: float) -> Mapping[str, float]:
    return {"turns": turns, "reward": 1.0, "success": 1.0, **metrics}


def lost(turns: float, **metrics: float) -> Mapping[str, float]:
    return {"turns": turns, "reward": 0.0, "success": 0.0, **metrics}


@pytest.fixture(scope="module")
def benchmark() -> Benchmark:
    start = games("trained", 0, [won(5), lost(1, illegal=1), lost(2, illegal=0)] * 4)
    trained = games("trained", 4, [won(3), won(4), lost(2)] * 4)
    other = games("random", None, [won(5), lost(1), lost(3)] * 4)
    return Benchmark(pl.concat([start, trained, other]), words=GAMES)


def test_turns_tokens_and_dollars_stand_beside_the_win_rate(benchmark: Benchmark) -> None:
    last = Contender("trained", 4)
    columns = {name: column[last] for name, column in benchmark.columns.items()}
    assert columns.pop("Turns of a success").startswith("3.5 (")
    others = {"Turns": "3", "Illegal": "", "Reward": "0.6667"}
    tokens = {"Prompt tokens a game": "40", "Completion tokens a game": "6"}
    assert columns == {**others, **tokens}, "the win rate is the measure"
    assert "per 1,000 boards" in benchmark_report(benchmark)
    illegal = benchmark.columns["Illegal"][Contender("trained", 0)]
    assert illegal == "0.5 (of 8)", "only some games have it"
    chart = charts_of(benchmark)["turns"]
    assert chart.alt == "Turns that a success takes, by training step: 5 at step 0, 3.5 at step 4"
    assert chart.png()


def test_a_cost_by_an_estimate_of_the_tokens_is_shown_as_an_upper_bound() -> None:
    counted = games("counted", None, [won(5), lost(1)] * 4)
    nothing = pl.lit(0, pl.Int64)
    uncounted = games("uncounted", None, [won(5), lost(1)] * 4).with_columns(
        prompt_tokens=nothing, completion_tokens=nothing
    )
    benchmark = Benchmark(pl.concat([counted, uncounted]), words=GAMES)
    report = benchmark_report(benchmark)
    assert (report.count("| $2.00 |"), report.count("| at most $2.00 |")) == (1, 1)
    prompts = benchmark.columns["Prompt tokens a game"]
    unknown = prompts[Contender("counted")], prompts[Contender("uncounted")]
    assert unknown == ("40", ""), "what was not counted is no zero"
    page = report_html(benchmark)
    assert "at most $2.00<" in page
    assert "<dt>judge</dt>" not in page, "no row without a value"
    run: Any = SimpleNamespace(sampled=0, name="m", machine_usd=0.0, began=datetime.now(UTC))
    run.budget = Budget(None)
    run.config = BenchmarkConfig(model="m")
    run.environment = SimpleNamespace(
        nouns=GAMES.nouns, identity={}, caveat="", scenarios=lambda _: ()
    )
    for frame, given_up, total in (
        (benchmark.frame, 0, "at most $0.020"),
        (counted, 0, "$0.020"),
        (counted, 1, "at most $0.020"),  # whose reply might have had as many tokens as allowed
    ):
        run.budget.spend = Spend(usd=0.02, given_up=given_up)
        facts = benchmark_facts(run, None, Benchmark(frame))
        assert facts[GAMES.nouns.rollouts.capitalize()] == total
        assert "The start" not in facts
    gone = counted.head(3).with_columns(cause=pl.Series(["timeout", None, "timeout"]), attempt=1)
    run.sampled = 2
    told = benchmark_facts(run, None, Benchmark(counted, attempts=gone))["Attempts"]
    assert told.endswith("; sampled without a score: 2 timeout"), "which pass@k leaves out"
    kept = counted.with_columns(kept=pl.lit(value=True))
    facts = benchmark_facts(run, None, Benchmark(pl.concat([kept, counted])))
    assert facts[GAMES.nouns.rollouts.capitalize()].endswith(
        "; 8 of 16 kept from earlier benchmarks"
    )
    began = Origin(model="o", step=3, store="s", files="0" * 64, corpus="k")
    trained: Any = SimpleNamespace(
        ledger=SimpleNamespace(next_step=1, origin=began), seen=0, steps=(0,)
    )
    flattered = Words(GAMES.nouns, caveat="It flatters.")
    facts = benchmark_facts(run, trained, Benchmark(counted, words=flattered))
    assert facts["The start"] == "o, step 3", "which was trained"
    assert facts["Caveat"] == "It flatters."


def test_only_complete_contenders_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pl.concat([games(name, None, [won(5), lost(1)] * 4) for name in ("one", "other")])
    one, other = Benchmark(frame, words=GAMES).standings
    benchmark: Any = SimpleNamespace(standings=[one, replace(other, complete=False)], frame=frame)
    logged: dict[str, float] = {}
    log: Any = SimpleNamespace(log=lambda _, metrics: logged.update(metrics))
    log.images = log.results = lambda *_: None
    monkeypatch.setattr("precis.observe.samples.charts_of", lambda _: {})
    tell_benchmark(log, "m", benchmark, tmp_path)
    assert list(logged) == [f"benchmark/{one.contender}"]


def test_of_a_reward_the_share_of_successes_is_a_column_and_no_points_are_spoken_of() -> None:
    trained = games("trained", 4, [won(3), lost(2)] * 4, measure="reward")
    other = games("random", None, [won(5), lost(1)] * 4, measure="reward")
    benchmark = Benchmark(pl.concat([trained, other]), words=REWARDED)
    share = benchmark.columns["Win rate"][Contender("trained", 4)]
    assert share == "50.0% (21.5% to 78.5%)"
    assert "Reward" not in benchmark.columns
    page = report_html(benchmark)
    power = page[page.index("<b>Power.</b>") : page.index("<b>Missing scores.</b>")]
    assert "points" not in power and "is not a share" in power
    # Nor is a change of it in points.
    scores = [{"turns": 1, "reward": 3.0 + number % 2} for number in range(12)]
    worse = [{**one, "reward": one["reward"] - 2.0} for one in scores]
    before = games("trained", 4, scores, "reward")
    tonight = games("trained", 4, worse, "reward")
    found = compare_nights(tonight, before, Words(is_share=False))
    assert str(found.regressions[0]).startswith("trained@4: -2 (-3.06 to -0.941) on 12 ")
    assert "| Difference |" in found.section()


@pytest.mark.parametrize("measure", ["", "reward"])
def test_a_failure_that_is_a_bare_reward_is_one_of_pass_at_k_too(measure: str) -> None:
    """Also if the run is measured by its reward, since its first validation had no success."""
    own = {"success": 5.0, "reward": 7.0}  # an agent's metrics may have any name
    played = []
    for index in (0, 1):
        played.append(Attempt(Rollout(Scenario("won"), index, (), Score(1.0, True, own))))
        played.append(Attempt(Rollout(Scenario("lost"), index, (), Score(0.0))))
    agent: Any = None
    spec = local_contender(Contender("a"), "a", "http://127.0.0.1:1/v1", "key", in_flight=1)
    found = results_of([(spec, played)], Agent(agent), "r", datetime.now(UTC), None, measure)
    assert found.frame["score"].to_list() == [0.0, 1.0]
    for share in (success_of(found.frame), pass_at(found.attempts, 1)[0]):
        assert share is not None and share.mean == 0.5
    assert figure_of(found.frame, Figure("reward", "reward")) == 0.5


def test_what_is_no_share_has_no_interval_where_scenarios_are_few_or_alike() -> None:
    assert REWARDED.interval(ratio_interval([2, 5, 3, 7], [1] * 4)) == "4.25 (no interval)"
    assert REWARDED.interval(ratio_interval([2] * 9, [1] * 9)) == "2 (no interval)"
    assert turns_of_successes(games("solver", None, [won(1)] * 3)) == Interval(1.0, 1.0, 1.0)
    assert ratio_interval([-1.0] * 3, [1.0] * 3) == Interval(-1.0, -1.0, -1.0)
    few = Benchmark(games("a", None, [won(2, reward=2.5)] * 2, "reward"), words=REWARDED)
    assert "has no interval on fewer than 5" in " ".join(report_html(few).split())
    assert paired_difference([30.0], [-5.0], [1.0]).accuracy == Interval(35.0, -33.25, 103.25)
    three = paired_difference([5.0, 7.0, 6.0], [3.0, 4.0, 5.5], [1.0] * 3)
    assert three.accuracy.ends == (None, None)
    said = REWARDED.ahead(Contender("a"), Contender("b"), three)
    assert "; 95 % interval of the difference: no interval; corrected p = 0." in said
    # Equals are level.
    even = Difference(Interval(0.0, -0.2, 0.2), 1.0, 8)
    said = GAMES.ahead(Contender("a", 3), Contender("b"), even)
    assert said.startswith("a, step 3 is level with b on 8 boards; 95 % interval of ")
    assert paired_difference([0.1, 0.2, 0.0], [0.0, 0.0, 0.3], [1.0] * 3).accuracy.mean == 0


@pytest.mark.parametrize("name", ["recall@5", "a.b", 'said "no"', "a\\b", "[0]", "*", ""])
def test_a_metric_may_have_any_name(name: str) -> None:
    rows = games("solver", None, [won(1, **{name: 1.0}), won(1, **{name: 2.0}), won(1)])
    assert figure_of(rows, Figure(name, name)) == 1.5
    assert count_with(rows, name) == (2, 3)
