"""How a sweep finds the runs that it has left at work, and which deployments it refuses."""

import pytest
import yaml

from precis.errors import ConfigError
from precis.sweep.trials import Trial, refuse_launcher
from tests.support.repository import ROOT


def test_a_trial_of_the_same_name_in_another_store_is_another_one() -> None:
    """A team's sweeps share a server, and `sweep` is the name of each that was given none."""
    trial = Trial("sweep-0123abcd-seed1", {"steps": 5}, 1)
    assert trial.tag("ana") == trial.tag("./ana")
    assert trial.tag("ana") != trial.tag("bo")


def test_a_deployment_that_only_launches_a_job_is_refused() -> None:
    """Its runs complete at once, and the sweep would end while all its machines are rented."""
    manifest = yaml.safe_load((ROOT / "prefect.yaml").read_text())
    entrypoints = {one["name"]: one["entrypoint"] for one in manifest["deployments"]}
    refuse_launcher("train/h100", entrypoints["h100"])
    with pytest.raises(ConfigError, match="A run of train/managed ends once"):
        refuse_launcher("train/managed", entrypoints["managed"])
