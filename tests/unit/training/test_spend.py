"""What a run says that it has spent is what was charged, whatever died meanwhile."""

from pathlib import Path
from typing import Any

import pytest

from precis.environments.summaries.judge.endpoint import LEXICAL_MODEL
from precis.llm.server import completions_app
from precis.records.ledger import load_ledger
from tests.support.faulty import FaultyServer
from tests.support.in_process import Life, live_noting, one_process
from tests.support.local_server import serving
from tests.support.paid_judge import PaidJudge
from tests.support.tinker_server import BASE_MODEL, KEY, TinkerServer
from tests.support.tokenizers import write_chat_tokenizer

STEPS = 3
KEPT = [("demonstrations kept", 0), ("result stored", 1), ("step trained", 1)]
KEPT.append(("manifest written", STEPS))
"""Points behind which nothing is paid for again, and at which no answer is on its way. Beside any
other commit than the last, the next step asks the judge: what a flow that is killed was about to be
answered is paid for, and nobody knows of it."""


async def test_what_is_trained_or_kept_and_not_yet_committed_is_paid_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUDGE_API_KEY", "a-key-of-the-test")
    judge = PaidJudge()
    app = completions_app(judge.complete, lambda: [LEXICAL_MODEL], "a-key-of-the-test")
    async with FaultyServer(app) as url:
        asked: dict[str, Any] = {"provider": "url", "base_url": url, "model": LEXICAL_MODEL}
        asked |= {"limits": {"requests_per_minute": 100_000}, "hedge_quantile": 0}
        settings = {
            "steps": STEPS,
            "validate_every": 5,
            "warm_start": {"measured_scenarios": 2},
            "documents": {"source": "bundled", "train_size": 12, "val_size": 3},
            "judge": {**asked, "prices": {LEXICAL_MODEL: [1.0, 1.0]}},
        }
        with one_process(tmp_path / "home"):
            whole = Life(tmp_path / "whole", settings)
            points = await live_noting(whole, tmp_path / "disks", lambda: judge.usd)
        assert load_ledger(whole.store, "m").usd == pytest.approx(judge.usd)
        killed = [one for one in points if (one.name, one.number) in KEPT]
        assert len(killed) == len(KEPT)
        for point in killed:
            # Its own cache of replies is empty: all that is asked is paid for.
            with one_process(tmp_path / f"home-{point.name}"):
                life = Life(tmp_path / f"killed at {point.name}", settings)
                life.begin_with(point.copy)
                before = judge.usd
                await life.live()
            ledger = load_ledger(life.store, "m")
            assert ledger.steps[0].warm_start is not None
            assert all(step.judge.usd >= 0 for step in ledger.steps)
            paid = point.service + judge.usd - before
            assert ledger.usd == pytest.approx(paid), f"killed at {point.name}"


@pytest.mark.filterwarnings(
    # The service's client leaves some of its connections to the garbage collector.
    "ignore:unclosed:ResourceWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
)
async def test_what_a_training_service_charges_is_the_steps_and_its_key_is_in_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TINKER_API_KEY", KEY)
    async with serving(TinkerServer(1).app()) as url:
        trainer = {
            "kind": "tinker",
            "base_url": url,
            "base_model": BASE_MODEL,
            "tokenizer": str(write_chat_tokenizer(tmp_path / "tokenizer")),
            "learning_rate": 0.5,
            "trajectories_per_update": 4,
            "prices": [1.0, 10.0, 100.0],
        }
        rollouts = {"groups_per_step": 2, "rollouts_per_group": 6, "replacements_max": 4}
        with one_process(tmp_path / "home"):
            life = Life(tmp_path / "run", {"trainer": trainer, "rollouts": rollouts})
            await life.live()
    ledger = load_ledger(life.store, "m")
    for step in ledger.steps:
        assert step.groups_trained
        assert step.trainer["offpolicy/logprob_gap"] < 1e-6
        assert step.machine_usd == step.trainer["costs/service"] > 0
    assert ledger.machine_usd == pytest.approx(sum(one.machine_usd for one in ledger.steps))
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.name == "ledger.json" for path in files)
    assert not [path for path in files if KEY.encode() in path.read_bytes()]
