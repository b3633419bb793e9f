"""The training flow with a judge behind HTTP that fails, refuses, costs money, or ranks."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from precis.llm.server import completions_app
from precis.records.ledger import Ledger
from precis.rehearsal.judges.judge import MODEL, lexical_judge
from tests.services.conftest import Precis
from tests.services.patience import until
from tests.services.prefect_api import client_of, logs_of, reached, runs_in
from tests.support.faulty import FaultyServer

KEY = "a-key-that-must-not-be-seen"


def judge() -> FaultyServer:
    return FaultyServer(completions_app(lexical_judge(), lambda: [MODEL], KEY))


def out_from_the_second_step(store: Path, refusal: JSONResponse, is_back: asyncio.Event) -> ASGIApp:
    """A judge that refuses all from the first step's commit on, until it is back."""
    lexical = completions_app(lexical_judge(), lambda: [MODEL], KEY)

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        is_out = not is_back.is_set() and _has_committed(store, 1)
        await (refusal if is_out else lexical)(scope, receive, send)

    return answer


def config(store: Path, url: str, **settings: Any) -> dict[str, Any]:
    fast = {"call_timeout_s": 5, "backoff_s": 0.01, "limits": {"requests_per_minute": 100_000}}
    return {
        "model": "judged",
        "steps": 2,
        "store": str(store),
        "documents": {"source": "bundled", "train_size": 12, "val_size": 4},
        "rollouts": {"groups_per_step": 2, "rollouts_per_group": 4},
        "judge": {"provider": "url", "base_url": url, "model": MODEL, **fast},
        "benchmark": False,
        **settings,
    }


def ledger(store: Path) -> Ledger:
    return Ledger.model_validate_json((store / "judged" / "ledger.json").read_text())


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """A cache of replies of one's own, and the judge's key."""
    return {"PRECIS_HOME": str(tmp_path / "home"), "JUDGE_API_KEY": KEY}


async def test_a_rejection_of_the_trial_question_costs_a_second_and_not_the_run(
    precis: Precis, tmp_path: Path, home: dict[str, str]
) -> None:
    lexical = completions_app(lexical_judge(), lambda: [MODEL], KEY)
    asked = 0

    async def rejecting_first(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal asked
        asked += 1
        refusal = JSONResponse({"error": {"message": "Slow down."}}, 429, {"Retry-After": "1"})
        await (refusal if asked == 1 else lexical)(scope, receive, send)

    async with FaultyServer(rejecting_first) as url:
        code, output = await precis.train(config(tmp_path, url, steps=1), **home)
    assert code == 0, output
    assert asked > 1


@pytest.mark.parametrize(
    ("off_policy_steps", "steps"), [(0, 2), pytest.param(1, 6, marks=pytest.mark.long)]
)
async def test_with_the_judge_out_the_run_pauses_and_goes_on_when_resumed(
    off_policy_steps: int, steps: int, precis: Precis, tmp_path: Path, home: dict[str, str]
) -> None:
    """Also where it fails on what is sampled ahead: then the step in hand is trained first."""
    is_back = asyncio.Event()
    refusal = JSONResponse({"error": {"message": "The model is overloaded."}}, 503)
    async with FaultyServer(out_from_the_second_step(tmp_path, refusal, is_back)) as url:
        settings = config(tmp_path, url, steps=steps, judge_patience_s=120)
        settings["off_policy_steps"] = off_policy_steps
        settings["judge"] |= {"tries_max": 1}
        run = asyncio.create_task(precis.train(settings, **home))
        await until(lambda: _has_committed(tmp_path, 1), "the first step")
        await _resume_when_paused(precis, tmp_path, is_back.set)
        code, output = await run
    assert code == 0, output
    staleness = [one.staleness for one in ledger(tmp_path).steps]
    assert staleness == [0, *[off_policy_steps] * (steps - 1)]


async def test_a_judge_that_refuses_everybody_is_named_in_log_and_progress(
    precis: Precis, tmp_path: Path, home: dict[str, str]
) -> None:
    is_back = asyncio.Event()
    message = {"error": {"message": "Rate limit exceeded."}}
    refusal = JSONResponse(message, 429, {"Retry-After": "1"})
    async with FaultyServer(out_from_the_second_step(tmp_path, refusal, is_back)) as url:
        settings = config(tmp_path, url)
        settings["judge"] |= {"tries_max": 1000}
        home["PRECIS_TEST_SAID_AFTER_S"] = "3"
        run = asyncio.create_task(precis.train(settings, **home))
        await until(lambda: _has_committed(tmp_path, 1), "the first step")
        with client_of(precis.api) as api:
            (found,) = await asyncio.to_thread(runs_in, api, str(tmp_path))
            await until(
                lambda: "The judge" in _progress_of(api, found["id"]), "a word on it", pause_s=0.3
            )
            progress = _progress_of(api, found["id"])
            is_back.set()
            code, output = await run
            logs = await asyncio.to_thread(logs_of, api, found["id"], "answers again, after ")
    assert code == 0, output
    assert f"The judge '{MODEL}' at {url} has answered no request for " in progress
    said = [line for line in logs if "has answered no request" in line]
    assert "The judge answered 429: Rate limit exceeded. It is asked again " in said[0]
    assert len(said) < 5, "a line for each request"


def _progress_of(api: httpx.Client, run: str) -> str:
    query = {"artifacts": {"flow_run_id": {"any_": [run]}, "type": {"any_": ["progress"]}}}
    found = api.post("/artifacts/filter", json=query).raise_for_status().json()
    return " ".join(progress["description"] for progress in found)


async def test_a_run_at_its_budget_fails_by_that_name_with_what_to_do(
    precis: Precis, tmp_path: Path, home: dict[str, str]
) -> None:
    async with judge() as url:
        settings = config(tmp_path, url, budget_usd=0.001)
        settings["judge"] |= {"prices": {MODEL: [1.0, 1.0]}}
        code, output = await precis.train(settings, **home)
    assert code == 1
    assert "BudgetReached: The run has spent $" in output
    state = _state_of(precis, tmp_path)
    assert (state["type"], state["name"]) == ("FAILED", "BudgetReached")
    assert "Raise budget_usd and start it again to continue." in state["message"]


async def test_flows_with_one_key_share_its_limit(
    precis: Precis, tmp_path: Path, home: dict[str, str]
) -> None:
    settings = config(tmp_path, "", judge_concurrency_limit="judge", steps=1)
    settings["judge"] = {"provider": "lexical", "limits": {"in_flight": 4}}
    code, output = await precis.train(settings, **home)
    assert code == 1
    assert "There is no global concurrency limit 'judge'" in output
    with client_of(precis.api) as api:
        limit = {"name": "judge", "limit": 4, "active": True}
        api.post("/v2/concurrency_limits/", json=limit).raise_for_status()
    too_many = settings | {"judge": {"provider": "lexical", "limits": {"in_flight": 5}}}
    code, output = await precis.train(too_many, **home)
    assert "has 4 slots, and a step takes 5" in output
    code, output = await precis.train(settings, **home)
    assert code == 0, output
    with client_of(precis.api) as api:
        limits = api.post("/v2/concurrency_limits/filter", json={}).json()
    assert [one["active_slots"] for one in limits if one["name"] == "judge"] == [0]


def _state_of(precis: Precis, store: Path) -> dict[str, Any]:
    """The state of the last run with this store."""
    with client_of(precis.api) as api:
        state: dict[str, Any] = runs_in(api, str(store))[0]["state"]
    return state


def _has_committed(store: Path, steps: int) -> bool:
    try:
        return len(ledger(store).steps) >= steps
    except OSError:
        return False


async def _resume_when_paused(precis: Precis, store: Path, repair: Any) -> None:
    with client_of(precis.api) as api:
        (run,) = await asyncio.to_thread(runs_in, api, str(store))
        await asyncio.to_thread(reached, api, run["id"], "PAUSED")
        repair()
        await asyncio.to_thread(api.post, f"/flow_runs/{run['id']}/resume")
