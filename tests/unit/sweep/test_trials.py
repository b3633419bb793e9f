"""Which runs a sweep comes to, and how it finds those that it has left at work."""

from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from precis.errors import ConfigError
from precis.sweep.trials import (
    SweepConfig,
    Trial,
    check_trials,
    describe,
    describe_plan,
    plan_trials,
    refuse_launcher,
)
from tests.support.repository import ROOT


def config(**given: Any) -> SweepConfig:
    return SweepConfig(name="s", store="st", **given)


def test_the_longest_name_is_still_a_models() -> None:
    given = SweepConfig(name="s" * 30, settings=[{}], seeds=(-(2**63) + 1,), store="st")
    (trial,) = plan_trials(given)
    assert len(trial.model) <= 64
    assert describe(trial.changes) == "the deployment's own settings", "what gives a baseline"
    with pytest.raises(ValidationError, match="at most 30 in all"):
        SweepConfig(name="s" * 31, settings=[{"steps": 5}], store="st")


PART, WHOLE = {"trainer.learning_rate": [0.1, 0.3]}, {"trainer": [{"kind": "extractive"}]}
TWICE = r"given trainer, and with it trainer\.learning_rate"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "neither grid nor settings says what to try"),
        ({"grid": {"steps": []}}, "the grid has no value for steps"),
        ({"grid": {"steps": [1]}, "seeds": (1, 1)}, "a seed is there twice"),
        ({"grid": {"steps": [1]}, "deployment": "benchmark/nightly"}, "deployment"),
        ({"settings": [{"seed": 3, "model": "m"}]}, "gives its trials their model, seed itself"),
        # Whichever came last, it would win without a word.
        ({"grid": {**PART, **WHOLE}}, TWICE),
        ({"grid": {**WHOLE, **PART}}, TWICE),
        ({"grid": {"trainer": [3], **PART}}, TWICE),
    ],
)
def test_settings_that_make_no_sweep_are_refused(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises((ConfigError, ValidationError), match=sentence):
        plan_trials(config(**given))


def test_too_many_runs_are_refused_however_many_they_are() -> None:
    numbers = list(range(1, 1001))
    for grid in ({"steps": numbers[:67]}, {f"trainer.{name}": numbers for name in "abcd"}):
        with pytest.raises(ConfigError, match=r"more than 200 runs \(over 66 combinations with 3"):
            plan_trials(config(grid=grid))
    assert len(plan_trials(config(grid={"steps": numbers[:66]}))) == 198
    with pytest.raises(ConfigError, match=r"over 200 combinations with 1 seed each"):
        plan_trials(config(grid={"steps": numbers}, seeds=[1]))


def test_a_setting_that_cant_be_is_named_before_any_run() -> None:
    deployed = {"documents": {"train_size": 8, "val_size": 4}}
    check_trials(plan_trials(config(grid=PART)), deployed, "st")
    for changes, sentence in [
        ({"trainer.learning_rate": -1}, "learning_rate: Input should be greater than 0"),
        ({"trainer.speed": 1}, "speed: there is no such setting"),
        ({"velocity": 1}, "velocity: there is no such setting"),
    ]:
        trials = plan_trials(config(settings=[changes]))
        with pytest.raises(ConfigError, match=sentence):
            check_trials(trials, deployed, "st")


def test_each_trial_has_the_budget_of_its_deployment_or_of_its_settings() -> None:
    trials = plan_trials(config(settings=[{"steps": 5}, {"budget_usd": 10.0}], seeds=(1, 2)))
    bounded = check_trials(trials, {"budget_usd": 60.0}, "st")
    assert [each.budget_usd for each in bounded] == [60, 10, 60, 10]
    assert "together they may spend $140.00" in describe_plan("train/trial", bounded)
    unbounded = check_trials(trials, {}, "st")
    assert "2 of the 4 trials have no budget_usd" in describe_plan("train/trial", unbounded)


def test_an_agent_is_swept_with_its_own_policy_and_nothing_of_the_summaries() -> None:
    deployed = {"model": "trial", "documents": {"train_size": 160}, "validate_every": 30}
    grid = {"environment": ["/agents/game.py"], "trainer.learning_rate": [0.02, 0.05]}
    found = check_trials(plan_trials(config(grid=grid, seeds=(1,))), deployed, "st")
    assert [one.environment.kind for one in found] == ["python", "python"]
    assert [one.trainer.kind for one in found] == ["tool_calls", "tool_calls"]
    assert {one.trainer.learning_rate for one in found} == {0.02, 0.05}
    assert {one.validate_every for one in found} == {30}


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
