"""What keeps a run honest: a second judge at every validation, and an early end."""

from pathlib import Path
from typing import Any

from precis.environments.summaries.judge.endpoint import PASSAGE_MODEL
from precis.models.reference import Reference, find_model
from precis.records.ledger import Ledger
from precis.store import FolderStore
from tests.services.conftest import Precis


def config(store: Path, **settings: Any) -> dict[str, Any]:
    return {
        "model": "honest",
        "store": str(store),
        "documents": {"source": "bundled", "train_size": 20, "val_size": 8},
        "validate_every": 2,
        "benchmark": False,
        **settings,
    }


def ledger_of(store: Path) -> Ledger:
    return Ledger.model_validate_json((store / "honest" / "ledger.json").read_text())


async def test_a_second_judge_rules_on_every_validation(precis: Precis, tmp_path: Path) -> None:
    second = {"provider": "lexical", "model": PASSAGE_MODEL}
    code, output = await precis.train(config(tmp_path, steps=2, second_judge=second))
    assert code == 0, output
    validations = ledger_of(tmp_path).validations
    # On eight documents two judges may agree once, but not at every validation.
    assert any(one.second and one.second.scores != one.score.scores for one in validations)
    for validation in validations:
        assert validation.second is not None
        assert validation.second.judge == PASSAGE_MODEL
        assert len(validation.second.scores) == len(validation.score.weights) == 8
        assert validation.metrics["copied"].value > 0.9  # it picks sentences


async def test_a_second_judge_that_is_the_first_again_is_refused(
    precis: Precis, tmp_path: Path
) -> None:
    code, output = await precis.train(config(tmp_path, second_judge={"provider": "lexical"}))
    assert code == 1
    assert "The second judge is the first one again" in output


async def test_a_run_without_gain_stops_early_and_its_best_checkpoint_is_the_model(
    precis: Precis, tmp_path: Path
) -> None:
    idle = {"kind": "extractive", "learning_rate": 1e-9}
    settings = config(tmp_path, steps=6, trainer=idle, patience=1)
    code, output = await precis.train(settings)
    assert code == 0, output
    stopped = ledger_of(tmp_path)
    assert (stopped.next_step, stopped.stopped_early) == (2, 2)
    assert [one.last_gain for one in stopped.validations] == [0, 0]
    store = FolderStore(tmp_path)
    assert stopped.best is not None
    assert find_model(store, Reference("honest")).step == stopped.best.step

    code, output = await precis.train(settings)
    assert code == 0, output
    assert ledger_of(tmp_path).steps == stopped.steps

    code, output = await precis.train({**settings, "patience": 0})
    assert code == 0, output
    finished = ledger_of(tmp_path)
    assert (finished.next_step, finished.stopped_early) == (6, None)
    assert find_model(store, Reference("honest")).step == 6
