"""What a run says that it has spent is what its judge has been paid, whatever died meanwhile."""

import signal
from pathlib import Path
from typing import Any

import pytest

from precis.llm.server import completions_app
from precis.records.ledger import Ledger, load_ledger
from precis.rehearsal.judges.judge import MODEL
from precis.store import FolderStore
from tests.services.conftest import Precis
from tests.services.crash_points import Kill, Kills
from tests.services.forked import end_of, forking, start_flow
from tests.services.lives import one_a_step
from tests.support.local_server import served
from tests.support.paid_judge import PaidJudge

KEY = "a-key-of-the-test"


def config(store: Path, url: str) -> dict[str, Any]:
    judge = {"provider": "url", "base_url": f"{url}/v1", "model": MODEL, "hedge_quantile": 0}
    limits = {"limits": {"requests_per_minute": 100_000}}
    return {
        "model": "paid",
        "validate_every": 5,
        "warm_start": {"measured_scenarios": 2},
        "benchmark": False,
        "store": str(store),
        "documents": {"source": "bundled", "train_size": 12, "val_size": 3},
        "rollouts": {"groups_per_step": 2, "rollouts_per_group": 4},
        "judge": {**judge, **limits, "prices": {MODEL: [1.0, 1.0]}},
    }


def test_what_is_trained_or_kept_and_not_yet_committed_is_paid_for_once(
    precis: Precis, tmp_path: Path
) -> None:
    kills = [
        Kill("first demonstrations kept", ("flow",), step=0),
        *one_a_step(
            [
                Kill("answer sent", ("flow",)),
                Kill("result stored", ("trainer",)),
                # In the last step: beside any other commit the next step asks the judge, and an
                # answer that was on its way to a flow that is killed is paid for, and nobody knows
                # of it.
                Kill("manifest written", ("flow",)),
            ]
        ),
    ]
    ledger, paid = killed(kills, precis, tmp_path)
    assert ledger.steps[0].warm_start is not None
    assert len(ledger.steps) == len(kills)
    assert all(step.judge.usd >= 0 for step in ledger.steps)
    assert ledger.usd == pytest.approx(paid)


def killed(kills: list[Kill], precis: Precis, tmp_path: Path) -> tuple[Ledger, float]:
    """The ledger of a run that was killed, and started again where its flow was; and what its
    judge was paid."""
    judge = PaidJudge()
    plan = Kills(tmp_path, kills)
    mine = {"PREFECT_API_URL": precis.api, "PRECIS_HOME": str(tmp_path), "JUDGE_API_KEY": KEY}
    log = tmp_path / "log.txt"
    with (
        forking({**precis.environment, **mine}) as desk,
        served(completions_app(judge.complete, lambda: [MODEL], KEY)) as url,
    ):
        settings = {**config(tmp_path / "store", url), "steps": len(kills)}
        deaths = sum("flow" in kill.victims for kill in kills)
        lives = [end_of(start_flow(settings, plan, log, desk), log) for _ in range(deaths + 1)]
    assert lives == [-signal.SIGKILL] * deaths + [0], log.read_text()
    assert plan.done == kills
    return load_ledger(FolderStore(tmp_path / "store"), "paid"), judge.usd
