"""Every command that talks to Prefect, run with PREFECT_API_URL set.

`precis up` tells everybody to set it. `rehearse` is run in
`tests/security/services/test_lost_server.py`, `up` in `test_up.py`; the tests of the commands
that don't talk to Prefect set it too (`run_precis`).
"""

import json
import signal
from pathlib import Path

import httpx
import polars as pl
import pytest

from tests.services.conftest import ROOT, Precis, Up
from tests.services.patience import patience_s, wait_until
from tests.services.prefect_api import client_of, runs_in

pytestmark = pytest.mark.services

MODEL = "games"
KEY = "CONTENDER_API_KEY"
DIGITS = "8300417"
"""A key that JSON would take for a number."""
BOARDS = 6
BASELINE = """

async def take_first(asked):
    from precis.llm.server import Choice, Completion, ToolCall

    cell = free(asked.messages[-1]["content"])[0]
    call = ToolCall("call", "play", json.dumps({"cell": int(cell)}))
    return Completion(asked.model, [Choice("", tool_calls=[call])])


async def decline(asked):
    from precis.llm.server import ApiError

    raise ApiError(400, "It plays no games.", "no_games")


def baselines():
    return {"first free": take_first, "decliner": decline}
"""


@pytest.fixture
def elsewhere(precis: Precis, tmp_path: Path) -> Precis:
    """The command in a home without a server, given the address of the one that is up."""
    other = Precis(tmp_path / "home")
    other.environment["PREFECT_API_URL"] = precis.api
    return other


def test_a_key_is_kept_on_a_named_server(precis: Precis, elsewhere: Precis, tmp_path: Path) -> None:
    """As a run does, which takes such keys over before it asks anybody."""
    said = elsewhere.run("secret", KEY, given=f"{DIGITS}\n")
    name = said.rpartition("block ")[2].strip().strip("'.")
    contender = {"model": "m", "provider": "url", "base_url": "http://127.0.0.1:9/v1"}
    documents = {"source": "bundled"}
    settings = {"checkpoints": "none", "contenders": [contender], "test_documents": documents}
    asked = ["-p", f"config={json.dumps(settings)}"]
    try:
        output = elsewhere.run("doctor", "benchmark/nightly", *asked, PRECIS_STORE=str(tmp_path))
    finally:
        with client_of(precis.api) as api:
            found = api.get(f"/block_types/slug/secret/block_documents/name/{name}")
            api.delete(f"/block_documents/{found.raise_for_status().json()['id']}")
    assert precis.api in "".join(output.split())
    assert f"✓  Secret blocks  {KEY}" in output
    assert "✓  contenders     m" in output
    assert DIGITS not in output


def test_a_named_server_has_the_worker(precis: Precis, elsewhere: Precis, tmp_path: Path) -> None:
    with client_of(precis.api) as api:
        before = workers_of(api)
        worker = Up(elsewhere, tmp_path / "output", command="worker")
        try:
            said = worker.output.read_text
            wait_until(lambda: workers_of(api) != before, "another worker", told=said)
            worker.process.send_signal(signal.SIGINT)
            assert worker.process.wait(patience_s()) == 0, said()
        finally:
            worker.process.kill()
            worker.process.wait()
        assert "No Prefect server is running." in elsewhere.run("stop")
        assert api.get("/health").is_success


def workers_of(api: httpx.Client) -> set[str]:
    """The names of the workers that the server has heard of."""
    found = api.post("/work_pools/precis/workers/filter", json={})
    if found.status_code == httpx.codes.NOT_FOUND:  # no worker has made the pool yet
        return set()
    return {worker["name"] for worker in found.raise_for_status().json()}


def test_an_agent_is_trained_and_benchmarked_on_the_server_that_is_named_and_deleted_there(
    precis: Precis, elsewhere: Precis, tmp_path: Path
) -> None:
    """Two checkpoints and two of three baselines have played each board; the report pairs them."""
    file = tmp_path / "game.py"
    game = (ROOT / "examples" / "tic_tac_toe.py").read_text()
    held_out = "range(10_000, 10_100)"
    assert held_out in game
    file.write_text(game.replace(held_out, f"range(10_004, {10_004 + BOARDS})") + BASELINE)
    store = tmp_path / "store"
    few = 'rollouts={"groups_per_step": 2, "rollouts_per_group": 4}'
    given = ("-p", "steps=1", "-p", few, "-p", f"store={store}", "--name", MODEL)
    output = elsewhere.run("train", str(file), *given)
    for said in (f"1 step, {BOARDS} held-out boards", "Win rate (95 % interval)", "Illegal"):
        assert said in output
    with client_of(precis.api) as api:
        runs = runs_in(api, str(store))
        assert len(runs) == 2  # its training, and the benchmark within that
        unranked = f"Too much is unscored to rank decliner ({BOARDS} generation_rejected)."
        assert unranked in [run["state"]["message"] for run in runs]
        benchmark = store / MODEL / "benchmarks" / "0001"
        rows = pl.read_parquet(benchmark / "results.parquet")
        page = (benchmark / "report.html").read_text()
        output = elsewhere.run("runs", "delete", MODEL, "--yes", "--store", str(store))
        assert f"{MODEL} is deleted, and 2 runs of it in Prefect" in " ".join(output.split())
        assert runs_in(api, str(store)) == []
    assert not (store / MODEL).exists()
    contenders = {("trained", 0), ("trained", 1), ("first free", None), ("random", None)}
    rows = rows.filter(pl.col("cause").is_null())
    assert set(rows.select("model", "step").iter_rows()) == contenders
    assert len(rows) == len(contenders) * BOARDS and set(rows["weight"]) == {1.0}
    won = rows.filter(pl.col("model") == "first free")["score"]
    assert won.is_in([0.0, 1.0]).all() and len(won.filter(won == 1.0)) > BOARDS // 4
    for said in ("Read the games", "Win rate", "paired by board", "first free"):
        assert said in page
    for said in ("a summary", "summaries", "Accuracy"):
        assert said not in page.partition("<body>")[2].partition("<script")[0], said
