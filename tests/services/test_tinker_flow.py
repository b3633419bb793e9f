"""A run of the training flow at a Tinker service, and what it leaves.

tests/unit/training/test_kills.py has such a run killed.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from precis.run.checkpoints import manifest, restore
from precis.trainer.tinker.checkpoints import read_kept
from tests.services.conftest import Precis
from tests.services.lives import Life, first_life, nobody
from tests.services.s3_server import s3_server
from tests.support.local_server import served
from tests.support.tinker_server import BASE_MODEL, KEY, TinkerServer
from tests.support.tokenizers import write_chat_tokenizer

END = 1
UPDATES = 2
"""Of a step: sixteen summaries, eight of which go into each."""

STEPS = 2


@dataclass(frozen=True)
class Tinker:
    """The service, and a run at it that nobody disturbs."""

    service: TinkerServer
    life: Life

    def outcome(self, life: Life) -> Any:
        """What must be the same for all: what was learned, how often, and from what."""
        steps = [(one.digest, one.reward, one.metrics) for one in life.ledger.steps]
        validations = [one.model_dump(exclude={"seconds"}) for one in life.ledger.validations]
        policy = self.service.saved[self.kept(life).state]
        return steps, validations, policy.logits.tolist(), policy.moves

    def kept(self, life: Life) -> Any:
        """Where the service has a run's last step."""
        folder = life.home / f"last-of-{life.name}"
        if not folder.exists():
            restore(life.store, "crash", life.steps, folder)
        return read_kept(folder)


@pytest.fixture(scope="module")
def tinker(precis: Precis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tinker]:
    tokenizer = write_chat_tokenizer(tmp_path_factory.mktemp("tokenizer"))
    service = TinkerServer(END)
    with pytest.MonkeyPatch.context() as patch, served(service.app()) as address:
        patch.setitem(precis.environment, "TINKER_API_KEY", KEY)
        trainer = {
            "kind": "tinker",
            "base_url": address,
            "base_model": BASE_MODEL,
            "tokenizer": str(tokenizer),
            "learning_rate": 0.5,
            "trajectories_per_update": 8,
            "prices": [1.0, 10.0, 100.0],
        }
        with s3_server() as url, first_life(precis, url) as life:
            # As many groups as are needed for each step to have some that teach.
            rollouts = {"groups_per_step": 2, "rollouts_per_group": 8, "replacements_max": 4}
            more = {"trainer": trainer, "rollouts": rollouts}
            yield Tinker(service, replace(life, name="tinker", steps=STEPS, more=more))


@pytest.fixture(scope="module")
def undisturbed(tinker: Tinker, tmp_path_factory: pytest.TempPathFactory) -> Any:
    assert tinker.life.live(nobody(tmp_path_factory.mktemp("ids"))) == 0, (
        tinker.life.log.read_text()
    )
    return tinker.outcome(tinker.life)


def test_a_run_trains_at_the_service_and_keeps_its_checkpoints_here(
    tinker: Tinker, undisturbed: Any
) -> None:
    life = tinker.life
    ledger = life.ledger
    assert ledger.next_step == life.steps
    last = manifest(life.store, "crash", life.steps)
    assert last is not None
    assert [file.path for file in last.files] == [
        "adapter_model.json",
        "metrics.json",
        "tinker.json",
    ]
    *_, logits, moves = undisturbed
    assert moves == UPDATES * life.steps
    folder = life.home / f"last-of-{life.name}"
    assert json.loads((folder / "adapter_model.json").read_text()) == logits
    for step in ledger.steps:
        assert step.groups_trained
        assert step.trainer["offpolicy/logprob_gap"] < 1e-6
        assert step.machine_usd == step.trainer["costs/service"] > 0
    assert ledger.machine_usd == pytest.approx(sum(one.machine_usd for one in ledger.steps))


def test_the_key_is_in_no_file_of_the_run(tinker: Tinker, undisturbed: Any) -> None:
    home = tinker.life.home
    kept = [*home.rglob("*"), *(home / "prefect").glob("prefect.db*"), home / "prefect/server.log"]
    files = [path for path in kept if path.is_file()]
    assert any(path.name == "prefect.db" for path in files)
    assert any(path.name == "trainer.log" for path in files)
    assert not [path for path in files if KEY.encode() in path.read_bytes()]
    for key in tinker.life.store.keys(""):
        blob = tinker.life.store.get(key)
        assert blob is None or KEY.encode() not in blob.data
