"""A small run on the worker of the set-up, from the first request to its end."""

from typing import Any

import httpx

from tests.services.patience import LONG_S, give_patience, wait_until
from tests.services.prefect_api import client_of, created, reached

STEPS = 2
API = "http://127.0.0.1:4200/api"
"""Where the set-up serves those on its machine."""
_DEPLOYMENT = "train/rehearsal"
_SMALL: dict[str, Any] = {
    "model": "composed",
    "steps": STEPS,
    "documents": {"source": "bundled", "train_size": 40, "val_size": 4},
    "rollouts": {"groups_per_step": 2, "rollouts_per_group": 4},
}


def rehearse(password: str) -> None:
    """Have the worker train and benchmark; returns when it has.

    Args:
        password: the server's, `user:password`.
    """
    give_patience(LONG_S)
    user, _, secret = password.partition(":")
    with client_of(API, auth=(user, secret)) as api:
        _wait_until_deployed(api)
        run = created(api, _DEPLOYMENT, _SMALL)
        ended = reached(api, run, "COMPLETED", "FAILED", "CRASHED")
    assert ended["state_type"] == "COMPLETED", ended["state"]
    assert ended["name"] == f"train composed: step {STEPS} of {STEPS}"


def _wait_until_deployed(api: httpx.Client) -> None:
    """The worker deploys when it starts, and is well before."""
    wait_until(
        lambda: api.get(f"/deployments/name/{_DEPLOYMENT}").is_success, _DEPLOYMENT, pause_s=0.5
    )
