"""The training flow with a judge behind HTTP that fails, refuses, costs money, or ranks."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from precis.llm.server import completions_app
from precis.records.ledger import Ledger
from precis.rehearsal.judges.judge import MODEL, lexical_judge
from tests.services.conftest import Precis
from tests.services.patience import until
from tests.services.prefect_api import client_of, logs_of, reached, runs_in
from tests.support.faults import Fault, Faults
from tests.support.faulty import FaultyServer
from tests.support.paid_judge import PaidJudge

KEY = "a-key-that-must-not-be-seen"


def judge(faults: Faults | None = None) -> FaultyServer:
    return FaultyServer(completions_app(lexical_judge(), lambda: [MODEL], KEY), faults)


def config(store: Path, url: str, **settings: Any) -> dict[str, Any]:
    fast = {"call_timeout_s": 5, "backoff_s": 0.01, "limits": {"requests_per_minute": 100_000}}
    return {
        "model": "judged",
        "steps": 2,
        "store": str(store),
        "documents": {"source": "bundled", "train_size": 40, "val_size": 8},
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


async def test_one_fault_in_five_costs_no_score(
    precis: Precis, tmp_path: Path, home: dict[str, str]
) -> None:
    async with judge() as url:
        assert (await precis.train(config(tmp_path / "calm", url), **home))[0] == 0
    faults = Faults.evenly(0.2, seed=3, retry_after_s=0.05, slow_s=0.1, drip_s=0.001)
    home["PRECIS_HOME"] = str(tmp_path / "other-home")
    async with judge(faults) as url:
        code, output = await precis.train(config(tmp_path / "storm", url), **home)
    assert code == 0, output
    calm, storm = ledger(tmp_path / "calm"), ledger(tmp_path / "storm")
    assert [one.digest for one in storm.steps] == [one.digest for one in calm.steps]
    assert all(not one.unscored for one in storm.steps)
    assert KEY not in output


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


async def test_the_same_summaries_are_judged_from_the_cache(
    precis: Precis, tmp_path: Path, home: dict[str, str]
) -> None:
    async with judge() as url:
        await precis.train(config(tmp_path / "first", url), **home)
        await precis.train(config(tmp_path / "second", url), **home)
    first, second = ledger(tmp_path / "first"), ledger(tmp_path / "second")
    assert [one.digest for one in second.steps] == [one.digest for one in first.steps]
    assert sum(one.judge.calls for one in first.steps) > 0
    assert sum(one.judge.calls for one in second.steps) == 0


async def test_a_wrong_key_stops_the_run_at_once_and_is_named(
    precis: Precis, tmp_path: Path, home: dict[str, str]
) -> None:
    async with judge() as url:
        code, output = await precis.train(
            config(tmp_path, url), **{**home, "JUDGE_API_KEY": "wrong-key"}
        )
    assert code == 1
    assert output.splitlines()[-1].startswith("JudgeRejected:")
    assert "JUDGE_API_KEY" in output
    assert "wrong-key" not in output


@pytest.mark.parametrize(
    ("off_policy_steps", "steps"), [(0, 2), pytest.param(1, 6, marks=pytest.mark.long)]
)
async def test_with_the_judge_out_the_run_pauses_and_goes_on_when_resumed(
    off_policy_steps: int, steps: int, precis: Precis, tmp_path: Path, home: dict[str, str]
) -> None:
    """Also where it fails on what is sampled ahead: then the step in hand is trained first."""
    out = FaultyServer(completions_app(lexical_judge(), lambda: [MODEL], KEY))
    async with out as url:
        settings = config(tmp_path, url, steps=steps, judge_patience_s=120)
        settings["off_policy_steps"] = off_policy_steps
        settings["judge"] |= {"tries_max": 1}
        run = asyncio.create_task(precis.train(settings, **home))
        await until(lambda: _has_committed(tmp_path, 1), "the first step")
        out._faults = Faults({Fault.UNAVAILABLE: 1.0})
        await _resume_when_paused(precis, tmp_path, lambda: setattr(out, "_faults", Faults()))
        code, output = await run
    assert code == 0, output
    staleness = [one.staleness for one in ledger(tmp_path).steps]
    assert staleness == [0, *[off_policy_steps] * (steps - 1)]


async def test_a_judge_that_refuses_everybody_is_named_in_log_and_progress(
    precis: Precis, tmp_path: Path, home: dict[str, str]
) -> None:
    refusing = judge()
    async with refusing as url:
        settings = config(tmp_path, url)
        settings["judge"] |= {"tries_max": 1000}
        run = asyncio.create_task(precis.train(settings, **home))
        await until(lambda: _has_committed(tmp_path, 1), "the first step")
        refusing._faults = Faults({Fault.RETRY_AFTER: 1.0}, retry_after_s=1)
        with client_of(precis.api) as api:
            (found,) = await asyncio.to_thread(runs_in, api, str(tmp_path))
            await until(lambda: "The judge" in _progress_of(api, found["id"]), "a word on it")
            progress = _progress_of(api, found["id"])
            refusing._faults = Faults()
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


@pytest.mark.parametrize("off_policy_steps", [0, pytest.param(1, marks=pytest.mark.long)])
async def test_the_run_stops_at_its_budget_and_continues_with_a_larger_one(
    off_policy_steps: int, precis: Precis, tmp_path: Path, home: dict[str, str]
) -> None:
    async with judge() as url:
        # The ceiling and the first validation cost just under two cents.
        settings = config(tmp_path, url, budget_usd=0.02, off_policy_steps=off_policy_steps)
        # Hedging, which a busy machine gives cause for, asks and pays twice.
        settings["judge"] |= {"prices": {MODEL: [1.0, 1.0]}, "hedge_quantile": 0}
        code, output = await precis.train(settings, **home)
        assert code == 1
        assert "BudgetReached: The run has spent $" in output
        spent = ledger(tmp_path).usd
        assert len(ledger(tmp_path).steps) == 1
        assert spent >= 0.02
        state = _state_of(precis, tmp_path)
        assert (state["type"], state["name"]) == ("FAILED", "BudgetReached")
        assert "Raise budget_usd and start it again to continue." in state["message"]
        assert (await precis.train(settings, **home))[0] == 1
        # Preflight asks the judge one small question.
        assert ledger(tmp_path).usd - spent < 0.001, "a run at its budget has spent more"
        code, output = await precis.train({**settings, "budget_usd": 100}, **home)
    assert code == 0, output
    assert len(ledger(tmp_path).steps) == 2
    assert ledger(tmp_path).usd > spent


async def test_a_run_that_stops_early_has_booked_what_it_sampled_ahead(
    precis: Precis, tmp_path: Path, home: dict[str, str]
) -> None:
    judge = PaidJudge()
    async with FaultyServer(completions_app(judge.complete, lambda: [MODEL], KEY)) as url:
        idle = {"kind": "extractive", "learning_rate": 1e-9}
        early = {"steps": 6, "trainer": idle, "validate_every": 2, "patience": 1}
        settings = config(tmp_path, url, off_policy_steps=1, **early)
        settings["judge"] |= {"prices": {MODEL: [1.0, 1.0]}, "hedge_quantile": 0}
        code, output = await precis.train(settings, **home)
    assert code == 0, output
    assert ledger(tmp_path).stopped_early == 2
    assert ledger(tmp_path).usd == pytest.approx(judge.usd)


async def test_a_ruler_rewards_without_golden_answers(
    precis: Precis, tmp_path: Path, home: dict[str, str]
) -> None:
    settings = config(tmp_path, "", rollouts={"reward": "ruler", "groups_per_step": 2})
    settings["judge"] = {"provider": "lexical"}
    code, output = await precis.train(settings, **home)
    assert code == 0, output
    assert all(one.groups_trained for one in ledger(tmp_path).steps)


async def test_flows_with_one_key_share_its_limit(
    precis: Precis, tmp_path: Path, home: dict[str, str]
) -> None:
    settings = config(tmp_path, "", judge_concurrency_limit="judge", steps=1)
    settings["judge"] = {"provider": "lexical", "limits": {"in_flight": 4}}
    code, output = await precis.train(settings, **home)
    assert code == 1
    assert "There is no global concurrency limit 'judge'" in output
    precis.prefect("gcl", "create", "judge", "--limit", "4")
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
