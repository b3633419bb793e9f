"""What a run says that it has spent is what its judge has been paid, whatever died meanwhile."""

from pathlib import Path
from typing import Any

import pytest

from precis.llm.server import completions_app
from precis.records.ledger import Ledger, load_ledger
from precis.standins.judge import MODEL
from precis.store import FolderStore
from tests.services.conftest import Precis
from tests.services.crash_points import Kill, Role
from tests.services.forked import end_of, forking, start_flow
from tests.support.local_server import served
from tests.support.paid_judge import PaidJudge

KEY = "a-key-of-the-test"


def config(store: Path, url: str) -> dict[str, Any]:
    judge = {"provider": "url", "base_url": f"{url}/v1", "model": MODEL, "hedge_quantile": 0}
    limits = {"limits": {"requests_per_minute": 100_000}}
    return {
        "model": "paid",
        "steps": 2,
        "validate_every": 5,
        "benchmark": False,
        "store": str(store),
        "documents": {"source": "bundled", "train_size": 12, "val_size": 3},
        "rollouts": {"groups_per_step": 2, "rollouts_per_group": 4},
        "judge": {**judge, **limits, "prices": {MODEL: [1.0, 1.0]}},
    }


@pytest.mark.parametrize(
    ("point", "victims"),
    [
        ("answer sent", ("flow",)),
        ("manifest written", ("trainer",)),
        pytest.param("manifest written", ("flow",), marks=pytest.mark.long),
        pytest.param("result stored", ("trainer",), marks=pytest.mark.long),
    ],
)
def test_a_step_that_is_trained_and_not_yet_committed_is_paid_for_once(
    point: str, victims: tuple[Role, ...], precis: Precis, tmp_path: Path
) -> None:
    ledger, paid = killed_once(Kill(point, victims, str(tmp_path)), precis, tmp_path)
    assert len(ledger.steps) == 2
    assert all(step.judge.usd >= 0 for step in ledger.steps)
    assert ledger.usd == pytest.approx(paid)


def test_summaries_that_are_kept_for_a_warm_start_are_paid_for(
    precis: Precis, tmp_path: Path
) -> None:
    kill = Kill("warm: first summaries kept", ("flow",), str(tmp_path))
    ledger, paid = killed_once(kill, precis, tmp_path, warm_start={"measured_documents": 2})
    assert ledger.steps[0].warm_start is not None
    assert ledger.usd == pytest.approx(paid)


def killed_once(kill: Kill, precis: Precis, tmp_path: Path, **more: Any) -> tuple[Ledger, float]:
    """The ledger of a run that was killed, and started again where its flow was; and what its
    judge was paid."""
    judge = PaidJudge()
    mine = {"PREFECT_API_URL": precis.api, "PRECIS_HOME": str(tmp_path), "JUDGE_API_KEY": KEY}
    log = tmp_path / "log.txt"
    with (
        forking({**precis.environment, **mine}) as desk,
        served(completions_app(judge.complete, lambda: [MODEL], KEY)) as url,
    ):
        settings = {**config(tmp_path / "store", url), **more}
        status = end_of(start_flow(settings, kill, log, desk), log)
        if "flow" in kill.victims:
            assert status != 0
            status = end_of(start_flow(settings, Kill("", (), str(tmp_path)), log, desk), log)
    assert status == 0, log.read_text()
    assert (tmp_path / "struck").exists()
    return load_ledger(FolderStore(tmp_path / "store"), "paid"), judge.usd
