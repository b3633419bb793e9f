"""Prefect's API as the tests ask it."""

import hashlib
import os
import secrets
import time
from collections.abc import Callable, Collection
from typing import Any

import httpx

from tests.services.patience import Patience, patience_s, wait_until
from tests.support.guard import RUN

_SECRET = hashlib.sha256(os.environ.get(RUN, secrets.token_hex()).encode()).hexdigest()
PASSWORD = f"tests:{_SECRET}"
"""What the tests' servers ask for; all processes of a run know it."""
AUTH = httpx.BasicAuth(*PASSWORD.split(":"))


def client_of(api: str, **options: Any) -> httpx.Client:
    """A client of the server whose API is at this address."""
    given = {"auth": AUTH, **options}
    return httpx.Client(base_url=api, timeout=patience_s(), **given)


def created(api: httpx.Client, deployment: str, config: dict[str, Any]) -> str:
    """Ask for a run of a deployment; its id."""
    found = api.get(f"/deployments/name/{deployment}").raise_for_status().json()
    body = {"parameters": {"config": config}, "state": {"type": "SCHEDULED"}}
    run = api.post(f"/deployments/{found['id']}/create_flow_run", json=body)
    return str(run.raise_for_status().json()["id"])


def cancel(api: httpx.Client, run: str) -> None:
    """Ask for a run's end, as the button in Prefect's pages does."""
    state = {"state": {"type": "CANCELLING", "name": "Cancelling"}}
    api.post(f"/flow_runs/{run}/set_state", json=state).raise_for_status()


def runs_in(api: httpx.Client, store: str) -> list[dict[str, Any]]:
    """The runs whose results go to this store, the newest first; others share the server."""
    query: dict[str, Any] = {"sort": "START_TIME_DESC", "limit": 200, "offset": 0}
    found = []
    while page := api.post("/flow_runs/filter", json=query).raise_for_status().json():
        found += [run for run in page if _store_of(run) == store]
        query["offset"] += len(page)
    return found


def _store_of(run: dict[str, Any]) -> Any:
    """A setting is a parameter of its own, or in `config` for who gives them all at once."""
    given = run["parameters"]
    return given.get("store") or (given.get("config") or {}).get("store")


_ENDS = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}


def reached(api: httpx.Client, run: str, *wanted: str) -> dict[str, Any]:
    """Wait until a run is in one of these types of state; the run.

    Its name says which step it has come to: as long as that or the state changes, it may run on.
    One that has ended otherwise fails the test.
    """
    found: dict[str, Any] = {}
    patience = Patience(f"{' or '.join(wanted)} of a run", lambda: found)
    seen = None
    while True:
        found = api.get(f"/flow_runs/{run}").raise_for_status().json()
        if found["state_type"] in wanted:
            return found
        assert found["state_type"] not in _ENDS, found["state"]
        now = (found["name"], found["state_id"])
        if now != seen:
            patience.renew()
        seen = now
        patience.check()
        time.sleep(0.3)


def states_of(api: httpx.Client, run: str) -> list[dict[str, Any]]:
    """All states that a run has been in, the first one first."""
    found = api.get("/flow_run_states/", params={"flow_run_id": run}).raise_for_status().json()
    return sorted(found, key=lambda state: str(state["timestamp"]))


def tasks_of(
    api: httpx.Client, *runs: str, until: Callable[[list[dict[str, Any]]], bool]
) -> list[dict[str, Any]]:
    """The task runs of flow runs, once those that are asked for are there.

    The server hears of them by events, which it may take up after the flow has ended.
    """
    query = {"flow_runs": {"id": {"any_": runs}}}
    return _awaited(api, "/task_runs/filter", query, until)


def logs_of(api: httpx.Client, run: str, last: str) -> list[str]:
    """A flow run's log, once the line with these words is there: lines are sent in batches."""
    query = {"logs": {"flow_run_id": {"any_": [run]}}, "sort": "TIMESTAMP_ASC"}

    def is_whole(lines: Collection[dict[str, Any]]) -> bool:
        return any(last in line["message"] for line in lines)

    return [line["message"] for line in _awaited(api, "/logs/filter", query, is_whole)]


def _awaited(
    api: httpx.Client, path: str, query: dict[str, Any], until: Callable[[Any], bool]
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []

    def is_there() -> bool:
        nonlocal found
        found = api.post(path, json=query).raise_for_status().json()
        return until(found)

    wait_until(is_there, f"what is looked for at {path}", told=lambda: found, pause_s=0.3)
    return found
