"""How a sweep finds the runs that it has left at work, and what it has spent on them."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from precis.errors import ConfigError
from precis.records.ledger import Ledger, write_ledger
from precis.store import FolderStore
from precis.sweep.config import SweepConfig
from precis.sweep.trials import Trial, plan_trials
from tasks.sweep import _may_spend_more, _refuse_launcher, _tag, share_budget
from tests.support.repository import ROOT


def test_a_trial_of_the_same_name_in_another_store_is_another_one() -> None:
    """A team's sweeps share a server, and `sweep` is the name of each that was given none."""
    trial = Trial("sweep-0123abcd-seed1", {"steps": 5}, 1)
    assert _tag(trial, "ana") == _tag(trial, "./ana")
    assert _tag(trial, "ana") != _tag(trial, "bo")


def of_steps(store: Path, name: str, *steps: int) -> SweepConfig:
    grid = {"steps": list(steps)}
    return SweepConfig(name=name, grid=grid, seeds=(1, -2), budget_usd=10, store=str(store))


async def test_what_was_spent_on_trials_that_are_no_more_is_gone(tmp_path: Path) -> None:
    """Another grid under the same name is the same sweep, and has no budget of its own."""
    for name in ("rates", "rates-2"):
        for trial in plan_trials(of_steps(tmp_path, name, 5)):
            spent = Ledger(model=trial.model, config="c", corpus="d", usd=3)
            write_ledger(FolderStore(tmp_path), spent, None)
    for steps, share in [((5,), 5.0), ((6,), 2.0), ((5, 6), 2.0)]:
        config = of_steps(tmp_path, "rates", *steps)
        assert await share_budget(config, plan_trials(config)) == pytest.approx(share)


@pytest.mark.parametrize(
    ("given", "share", "more"),
    [(3.0, 1.0, True), (3.0, 3.0, False), (1.0, 3.0, False), (None, 1.0, True), (3.0, None, False)],
)
def test_a_run_that_was_left_at_work_may_not_spend_more_than_its_trial(
    given: float | None, share: float | None, more: bool
) -> None:
    run: Any = SimpleNamespace(parameters={"config": {"budget_usd": given}})
    assert _may_spend_more(run, share) is more


def test_a_deployment_that_only_launches_a_job_is_refused() -> None:
    """Its runs complete at once, and the sweep would end while all its machines are rented."""
    manifest = yaml.safe_load((ROOT / "prefect.yaml").read_text())
    entrypoints = {one["name"]: one["entrypoint"] for one in manifest["deployments"]}
    _refuse_launcher("train/h100", entrypoints["h100"])
    with pytest.raises(ConfigError, match="A run of train/managed ends once"):
        _refuse_launcher("train/managed", entrypoints["managed"])
