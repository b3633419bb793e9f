"""The training flow in Prefect, with a judge behind HTTP that fails, refuses or costs money."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from precis.config import TrainConfig
from precis.environments.summaries.judge.endpoint import LEXICAL_MODEL
from precis.llm import silence
from precis.llm.server import completions_app
from precis.records.ledger import Ledger
from precis.rehearsal.judges.judge import lexical_judge
from tests.services.conftest import Precis
from tests.services.patience import until
from tests.services.prefect_api import client_of, logs_of, reached, runs_in, tasks_of
from tests.support.faulty import FaultyServer
from tests.support.in_process import in_process

# Prefect's clients leave some of their connections to the garbage collector.
pytestmark = [
    pytest.mark.usefixtures("collected"),
    pytest.mark.filterwarnings(
        "ignore:unclosed:ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
    ),
]

KEY = "a-key-that-must-not-be-seen"


def out_from_the_second_step(store: Path, refusal: JSONResponse, is_back: asyncio.Event) -> ASGIApp:
    """A judge that refuses all from the first step's commit on, until it is back."""
    lexical = completions_app(lexical_judge, lambda: [LEXICAL_MODEL], KEY)

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        is_out = not is_back.is_set() and _has_committed(store, 1)
        await (refusal if is_out else lexical)(scope, receive, send)

    return answer


def config(store: Path, url: str, **settings: Any) -> dict[str, Any]:
    # Rejections lower the limits: with few tokens left a run may wait for a minute to pass.
    limits = {"requests_per_minute": 100_000, "tokens_per_minute": 10**9}
    fast = {"call_timeout_s": 60, "backoff_s": 0.01, "limits": limits}
    return {
        "model": "judged",
        "steps": 2,
        "store": str(store),
        "documents": {"source": "bundled", "train_size": 12, "val_size": 4},
        "rollouts": {"groups_per_step": 2, "rollouts_per_group": 4},
        "judge": {"provider": "url", "base_url": url, "model": LEXICAL_MODEL, **fast},
        "benchmark": False,
        **settings,
    }


async def train_here(precis: Precis, config: dict[str, Any]) -> Any:
    """Train with all services in this process and a home beside the run's store, against the
    server; the state that it comes to."""
    import prefect.settings as known  # takes seconds, too long where tests are only collected

    import flows.train
    import tasks.training

    settings = {
        known.PREFECT_API_URL: precis.api,
        known.PREFECT_API_AUTH_STRING: precis.environment["PREFECT_API_AUTH_STRING"],
        known.PREFECT_HOME: precis.home / "prefect",
    }
    run_training = partial(flows.train.run_training, launch=in_process)
    with pytest.MonkeyPatch.context() as patch, known.temporary_settings(settings):
        patch.setenv("PRECIS_HOME", f"{config['store']}-home")
        patch.setenv("JUDGE_API_KEY", KEY)
        patch.setattr(flows.train, "run_training", run_training)
        # As often as ever, but sooner.
        for stage in (tasks.training.gather_rollouts, tasks.training.commit_step):
            patch.setattr(stage, "retry_delay_seconds", [0.1])
        return await flows.train.train(TrainConfig.model_validate(config), return_state=True)


def ledger(store: Path) -> Ledger:
    return Ledger.model_validate_json((store / "judged" / "ledger.json").read_text())


async def test_without_its_judge_a_run_pauses_and_is_resumed(
    precis: Precis, tmp_path: Path
) -> None:
    """Though it fails on what is sampled ahead: the step in hand is trained first."""
    is_back = asyncio.Event()
    refusal = JSONResponse({"error": {"message": "The model is overloaded."}}, 503)
    async with FaultyServer(out_from_the_second_step(tmp_path, refusal, is_back)) as url:
        settings = config(tmp_path, url, steps=3, off_policy_steps=1, judge_patience_s=120)
        settings["judge"] |= {"tries_max": 1}
        run = asyncio.create_task(train_here(precis, settings))
        await until(lambda: _has_committed(tmp_path, 1), "the first step")
        with client_of(precis.api) as api:
            (found,) = await asyncio.to_thread(runs_in, api, str(tmp_path))
            await asyncio.to_thread(reached, api, found["id"], "PAUSED")
            is_back.set()
            await asyncio.to_thread(api.post, f"/flow_runs/{found['id']}/resume")
        state = await run
    assert state.is_completed(), state
    assert [one.staleness for one in ledger(tmp_path).steps] == [0, 1, 1]


async def test_a_judge_that_refuses_everybody_is_named_in_log_and_progress(
    precis: Precis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(silence, "_SAID_AFTER_S", 3.0)
    is_back = asyncio.Event()
    message = {"error": {"message": "Rate limit exceeded."}}
    refusal = JSONResponse(message, 429, {"Retry-After": "1"})
    async with FaultyServer(out_from_the_second_step(tmp_path, refusal, is_back)) as url:
        settings = config(tmp_path, url)
        settings["judge"] |= {"tries_max": 1000}
        run = asyncio.create_task(train_here(precis, settings))
        await until(lambda: _has_committed(tmp_path, 1), "the first step")
        with client_of(precis.api) as api:
            (found,) = await asyncio.to_thread(runs_in, api, str(tmp_path))
            await until(
                lambda: "The judge" in _progress_of(api, found["id"]), "a word on it", pause_s=0.3
            )
            progress = _progress_of(api, found["id"])
            # As the automation does, where the machine has slept for more than five minutes.
            run_at = f"/flow_runs/{found['id']}"
            api.post(f"{run_at}/set_state", json={"state": {"type": "CRASHED"}}).raise_for_status()
            await until(
                lambda: api.get(run_at).json()["state_type"] == "RUNNING", "a sign that it is alive"
            )
            is_back.set()
            state = await run
            logs = await asyncio.to_thread(logs_of, api, found["id"], "answers again, after ")
    assert state.is_completed(), state
    assert f"The judge '{LEXICAL_MODEL}' at {url} has answered no request for " in progress
    said = [line for line in logs if "has answered no request" in line]
    assert "The judge answered 429: Rate limit exceeded. It is asked again " in said[0]
    assert len(said) < 5, "a line for each request"


def _progress_of(api: httpx.Client, run: str) -> str:
    query = {"artifacts": {"flow_run_id": {"any_": [run]}, "type": {"any_": ["progress"]}}}
    found = api.post("/artifacts/filter", json=query).raise_for_status().json()
    return " ".join(progress["description"] for progress in found)


async def test_a_run_at_its_budget_fails_with_what_to_do(precis: Precis, tmp_path: Path) -> None:
    app = completions_app(lexical_judge, lambda: [LEXICAL_MODEL], KEY)
    async with FaultyServer(app) as url:
        settings = config(tmp_path, url, budget_usd=0.001)
        settings["judge"] |= {"prices": {LEXICAL_MODEL: [1.0, 1.0]}}
        state = await train_here(precis, settings)
    assert (state.type, state.name) == ("FAILED", "BudgetReached")
    assert state.message.startswith("The run has spent $")
    assert "Raise budget_usd and start it again to continue." in state.message
    told, rents = names = ["forecast of judged", "start trainer of judged"]
    with client_of(precis.api) as api:
        found = await asyncio.to_thread(
            tasks_of,
            api,
            str(state.state_details.flow_run_id),
            until=lambda tasks: {one["name"] for one in tasks if one["start_time"]} >= {*names},
        )
    began = {one["name"]: one["start_time"] for one in found}
    assert began[told] < began[rents], "what the run will cost is told once a machine costs"


async def test_flows_with_one_key_share_its_limit(precis: Precis, tmp_path: Path) -> None:
    settings = config(tmp_path, "", judge_concurrency_limit="judge", steps=1)
    settings["judge"] = {"provider": "lexical", "limits": {"in_flight": 4}}
    with client_of(precis.api) as api:
        limit = {"name": "judge", "limit": 4, "active": True}
        api.post("/v2/concurrency_limits/", json=limit).raise_for_status()
    too_many = settings | {"judge": {"provider": "lexical", "limits": {"in_flight": 5}}}
    state = await train_here(precis, too_many)
    assert "has 4 slots, and a step takes 5" in state.message
    state = await train_here(precis, settings)
    assert state.is_completed(), state
    with client_of(precis.api) as api:
        limits = api.post("/v2/concurrency_limits/filter", json={}).json()
    assert [one["active_slots"] for one in limits if one["name"] == "judge"] == [0]


async def test_a_run_with_nothing_left_to_do_starts_no_trainer(
    precis: Precis, tmp_path: Path
) -> None:
    """A sweep that is run again would rent a machine for each trial that it has."""
    settings = {**config(tmp_path, "", steps=1), "judge": {"provider": "lexical"}}
    assert (await train_here(precis, settings)).is_completed()
    lease = tmp_path / "judged" / "lease.json"
    before = lease.read_bytes()
    state = await train_here(precis, settings)
    assert state.is_completed() and "come to step 1 already" in state.message
    assert lease.read_bytes() == before, "the trainer starts under the lease"
    assert (await train_here(precis, {**settings, "steps": 2})).is_completed()
    assert ledger(tmp_path).next_step == 2


def _has_committed(store: Path, steps: int) -> bool:
    try:
        return len(ledger(store).steps) >= steps
    except OSError:
        return False
