"""What is found out about a run before anything is rented."""

from pathlib import Path
from typing import Any

import pytest

from precis.config import TrainConfig
from precis.environments.summaries.judge import Unscored
from precis.environments.summaries.judge.client import check_ceiling
from precis.errors import ConfigError, UnusableRun
from precis.records.documents import Document
from precis.records.ledger import Ledger, ledger_key, write_ledger
from precis.records.verdict import Answer, Scored
from precis.store import open_store
from precis.training import preflight as training_preflight
from precis.training.preflight import Preflight, find_finished_run
from tests.support.corpora import corpus
from tests.support.environments import summaries
from tests.support.ledgers import ledger_at
from tests.support.runs import make_run

LOCAL = {"documents", "judge", "store", "W&B", "licence", "environment"}


class Judge:
    """Answers so many of a document's two questions."""

    def __init__(self, right: int = 2, model: str = "a-judge") -> None:
        self.identity = {"model": model}
        self.parameters = {"temperature": 0}
        self.right = right
        self.fails_on = ""

    async def check(self) -> str:
        return self.identity["model"]

    async def score(self, document: Document, summary: str) -> Scored | Unscored:
        if document.id == self.fails_on:
            return Unscored("timeout", "It took too long.")
        answers = []
        for place, question in enumerate(document.questions):
            answers.append(Answer(question.id, "", place < self.right, question.answerable))
        return Scored(tuple(answers))


def preflight(
    folder: Path,
    judge: Judge,
    warnings: list[str] | None = None,
    second: Judge | None = None,
    **settings: Any,
) -> Preflight:
    config = TrainConfig.model_validate({"store": str(folder / "store"), **settings})
    environment = summaries(corpus(), judge, second=second)
    told = [] if warnings is None else warnings
    return Preflight(config, environment, told.append)


def test_rented_and_own_gpus_are_checked_for_what_they_need(tmp_path: Path) -> None:
    rented = preflight(tmp_path, Judge(), cluster={"where": "sky"}, store="s3://bucket")
    assert rented.checks().keys() == LOCAL | {"SkyPilot's keys", "GPU", "budget"}
    two = {"kind": "art", "engine": {"gpus": 2}}
    assert preflight(tmp_path, Judge(), trainer=two).checks().keys() == LOCAL | {"GPU"}


async def test_a_stored_run_of_other_settings_is_refused(tmp_path: Path) -> None:
    """Before anything is rented."""
    now = preflight(tmp_path, Judge(), model="m", seed=2)
    before = now.config.model_copy(update={"seed": 1})
    ledger = Ledger(model="m", config="before", corpus=corpus().digest)
    store = open_store(now.config.store)
    write_ledger(store, ledger.under(before.model_dump(mode="json")), None)
    with pytest.raises(ConfigError, match="seed was 1 and is 2 now"):
        await now.store()
    store.delete(ledger_key("m"))
    make_run(store, "m", 1)
    store.delete(ledger_key("m"))
    with pytest.raises(UnusableRun, match="`precis runs repair m --store "):
        await now.store()


async def test_only_a_run_that_is_yet_to_begin_needs_its_origin(tmp_path: Path) -> None:
    origin = {"model": "m", "step": 7}
    forked = preflight(tmp_path, Judge(), model="forked", from_checkpoint=origin)
    store = open_store(forked.config.store)
    make_run(store, "m", 1)
    with pytest.raises(ConfigError, match="no whole checkpoint 7"):
        await forked.store()
    identity = forked.config.identity(corpus().digest, {"model": "a-judge"})
    begun = Ledger(model="forked", config=identity, corpus=corpus().digest)
    write_ledger(store, begun, None)
    await forked.store()


async def test_serverless_training_needs_its_key_and_any_other_none(tmp_path: Path) -> None:
    assert "no WANDB_API_KEY" in await preflight(tmp_path, Judge()).checks()["W&B"]()
    serverless = preflight(
        tmp_path,
        Judge(),
        trainer={"kind": "serverless", "base_model": "OpenPipe/Qwen3-14B-Instruct"},
    )
    with pytest.raises(ConfigError, match="needs WANDB_API_KEY"):
        await serverless.checks()["W&B"]()


async def test_a_ceiling_is_told_and_a_low_one_warned_of(tmp_path: Path) -> None:
    warnings: list[str] = []
    found = await preflight(tmp_path / "high", Judge(right=2), warnings).ceiling()
    assert found == "100% accuracy can be reached"
    assert warnings == []
    low = preflight(tmp_path / "low", Judge(right=0), warnings, ceiling_min=0)
    found = await low.ceiling()
    assert found == "0% accuracy can be reached"
    assert len(warnings) == 1 and "rewards will be sparse" in warnings[0]
    with pytest.raises(ConfigError, match="ceiling_min"):
        await preflight(tmp_path / "least", Judge(right=0), warnings, ceiling_min=0.2).ceiling()
    with pytest.raises(ConfigError, match=r"answers 49\.96% .*less than ceiling_min \(50%\)"):
        check_ceiling(0.4996, 0.5, "j")
    judge = Judge()
    judge.fails_on = corpus().validation[0].id
    assert "not measured" in await preflight(tmp_path / "fails", judge).ceiling()


async def test_a_second_judge_that_is_the_first_again_is_refused(tmp_path: Path) -> None:
    first = Judge(model="flash")
    for one, other in (("flash", "flash"), ("flash", "google/flash"), ("google/flash", "flash")):
        twice = preflight(tmp_path, Judge(model=one), second=Judge(model=other))
        with pytest.raises(ConfigError, match=f"the first one again, {other}"):
            await twice.checks()["second judge"]()
    another = preflight(tmp_path, first, second=Judge(model="light-flash"))
    assert await another.checks()["second judge"]() == "light-flash"
    assert "second judge" not in preflight(tmp_path, first).checks()


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("AWS_REGION", "eu-west-3", ""),
        # The machine has a copy, and nobody renews it there.
        ("AWS_SESSION_TOKEN", "a-session", "The keys of the bucket are temporary"),
        ("AWS_ENDPOINT_URL", "http://localhost:9000", "AWS_ENDPOINT_URL is http://localhost:9000"),
    ],
)
async def test_a_bucket_that_a_rented_machine_may_not_reach_is_warned_of(
    variable: str, value: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "an-id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret")
    monkeypatch.setenv(variable, value)
    store = open_store(str(tmp_path / "store"))
    monkeypatch.setattr(training_preflight, "open_store", lambda url: store)
    warnings: list[str] = []
    rented = preflight(tmp_path, Judge(), warnings, cluster={"where": "sky"}, store="s3://bucket")
    await rented.store()
    await preflight(tmp_path, Judge(), warnings).store()
    assert len(warnings) == bool(said)
    assert "".join(warnings).startswith(said)


async def test_a_run_stopped_by_new_settings_is_finished(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    settings = {"model": "m", "store": str(tmp_path), "steps": 9, "validate_every": 2}
    config = TrainConfig.model_validate({**settings, "patience": 2})
    ledger = ledger_at(4, {0: 0.5, 2: 0.4, 4: 0.3})
    measured = tuple(one.model_copy(update={"last_gain": 0}) for one in ledger.validations)
    ledger = ledger.model_copy(update={"validations": measured})
    version = write_ledger(store, ledger, None)
    assert await find_finished_run(config) is None
    write_ledger(store, ledger.stop_early(2, 9), version)
    found = await find_finished_run(config)
    assert found and found.stopped_early == 4
