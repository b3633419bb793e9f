"""A benchmark of an agent: its checkpoints and its file's baselines, paired by scenario."""

from pathlib import Path

import polars as pl

from tests.services.conftest import ROOT, Precis
from tests.services.prefect_api import client_of, runs_in

BOARDS = 24
_BASELINE = """

async def take_first(asked):
    from precis.llm.server import Choice, Completion, ToolCall

    cell = free(asked.messages[-1]["content"])[0]
    call = ToolCall("call", "play", json.dumps({"cell": int(cell)}))
    return Completion(asked.model, [Choice("", tool_calls=[call])])


def baselines():
    return {"first free": take_first}
"""


def test_a_rehearsal_of_an_agent_ends_in_a_benchmark(precis: Precis, tmp_path: Path) -> None:
    """On the server that PREFECT_API_URL names, from a home without one."""
    elsewhere = Precis(tmp_path / "home")
    elsewhere.environment["PREFECT_API_URL"] = precis.api
    file = tmp_path / "game.py"
    game = (ROOT / "examples" / "tic_tac_toe.py").read_text()
    held_out = "range(10_000, 10_100)"
    assert held_out in game
    file.write_text(game.replace(held_out, f"range(10_000, {10_000 + BOARDS})") + _BASELINE)
    store = tmp_path / "store"
    told = ["--environment", str(file), "--steps=2", f"--store={store}", "--model=games"]
    output = elsewhere.run("rehearse", *told)
    with client_of(precis.api) as api:
        assert len(runs_in(api, str(store))) == 2  # its training, and the benchmark within that
    for said in (f"2 steps, {BOARDS} held-out boards", "Win rate (95 % interval)", "Illegal"):
        assert said in output
    folder = store / "games" / "benchmarks" / "0002"
    rows = pl.read_parquet(folder / "results.parquet")
    others = {("first free", None), ("random", None)}
    contenders = {("trained", step) for step in range(3)} | others
    assert set(rows.select("model", "step").iter_rows()) == contenders
    won = rows.filter(pl.col("model") == "first free")["score"]
    assert len(rows) == 5 * BOARDS and set(rows["weight"]) == {1.0}
    assert won.is_in([0.0, 1.0]).all() and len(won.filter(won == 1.0)) > BOARDS // 4
    page = (folder / "report.html").read_text()
    for said in ("Read the games", "Win rate", "paired by board", "first free"):
        assert said in page
    for said in ("a summary", "summaries", "Accuracy"):
        assert said not in page.partition("<body>")[2].partition("<script")[0], said
