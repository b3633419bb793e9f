"""The trainer over HTTP: behind its token, once for each step, and ART's own client on top."""

import asyncio
import errno
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import art
import httpx
import pytest
from art.trajectories import History

from precis.errors import RolloutError, StaleAdapter, StepConflict, TrainerError, Unauthorized
from precis.llm.server import ChatRequest, Completion, completions_app
from precis.llm.server import Choice as Answer
from precis.store import FolderStore
from precis.trainer.client import RemoteTrainer
from precis.trainer.host import TrainerService
from precis.trainer.journal import Journal
from precis.trainer.protocol import (
    FileRequest,
    ModelSpec,
    StoredModel,
    TrainedStep,
    TrainerState,
    digest_of,
    encode_groups,
)
from precis.trainer.server import main as serve_trainer
from tests.services.patience import patience_s, until
from tests.support.echoing import PRESS
from tests.support.local_server import serving
from tests.support.stopped import HOLD_LOCK, stopped_process
from tests.support.trainers import TOKEN, CountingBackend, Model, Trained, group, trainer_of

SPEC = ModelSpec(name="m", project="p", base_model="b")


@pytest.fixture
def backend(tmp_path: Path) -> CountingBackend:
    return CountingBackend(tmp_path / "trainer")


@pytest.fixture
async def trainer(backend: CountingBackend, tmp_path: Path) -> AsyncIterator[RemoteTrainer]:
    async with trainer_of(backend, tmp_path) as client:
        yield client


def model_of(name: str, folder: Path) -> Model:
    return art.TrainableModel(
        name=name, project="p", base_model="b", base_path=str(folder), report_metrics=[]
    )


@pytest.fixture
async def run(trainer: RemoteTrainer, tmp_path: Path) -> Trained:
    model = model_of("m", tmp_path)
    await model.register(trainer)
    return Trained(trainer, model)


async def test_a_wrong_token_is_an_error_of_its_own(trainer: RemoteTrainer, tmp_path: Path) -> None:
    stranger = RemoteTrainer(trainer.url, "wrong", tmp_path)
    with pytest.raises(Unauthorized):
        await model_of("m", tmp_path).register(stranger)
    await stranger.close()


@pytest.fixture
async def inference(backend: CountingBackend) -> AsyncIterator[None]:
    """The backend's own endpoint, which the trainer passes requests on to."""

    async def complete(request: ChatRequest) -> Completion:
        return Completion(request.model, [Answer("a summary")])

    async with serving(completions_app(complete, lambda: ["m"], api_key="inner")) as address:
        backend.inference_url = f"{address}/v1"
        yield


async def ask(trainer: RemoteTrainer, adapter: str) -> httpx.Response:
    headers = {"authorization": f"Bearer {TOKEN}"}
    async with httpx.AsyncClient(base_url=trainer.url, headers=headers) as client:
        body = {"model": adapter, "messages": [{"role": "user", "content": "summarize"}]}
        return await client.post("/v1/chat/completions", json=body)


@pytest.mark.parametrize("asked", ["m", "", "other@0", "m@x"])
async def test_what_names_no_adapter_is_refused(inference: None, run: Trained, asked: str) -> None:
    answer = await ask(run.trainer, asked)
    assert answer.status_code == 400
    said = f"{asked!r} is not an adapter of this trainer: ask for MODEL@STEP of m."
    assert answer.json()["message"] == said


async def test_of_two_models_each_is_asked_at_its_own_endpoint_and_one_that_is_gone_is_named(
    backend: CountingBackend, inference: None, run: Trained, tmp_path: Path
) -> None:
    """A GPU's backend has a vLLM for each."""
    await run.model.register(run.trainer)
    backend.inference_url = "http://127.0.0.1:9/v1"
    await model_of("other", tmp_path).register(run.trainer)
    assert (await ask(run.trainer, "m@0")).status_code == 200
    answer = await ask(run.trainer, "other@0")
    assert (answer.status_code, answer.json()["type"]) == (502, "TrainerLost")
    assert "samples for this trainer does not answer (ConnectError" in answer.json()["message"]


async def test_who_leaves_is_sampled_no_further(backend: CountingBackend, run: Trained) -> None:
    asked = asyncio.Event()
    left = asyncio.Event()

    async def sample(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        asked.set()
        while (await receive())["type"] != "http.disconnect":
            pass
        left.set()

    async with serving(sample) as address:
        backend.inference_url = f"{address}/v1"
        await run.model.register(run.trainer)
        asking = asyncio.create_task(ask(run.trainer, "m@0"))
        async with asyncio.timeout(patience_s()):
            await asked.wait()
            asking.cancel()
            await left.wait()


def test_the_digest_follows_all_that_is_trained_on_and_not_the_timings() -> None:
    plain, slow, other, with_tools, with_history = (group(0, 1) for _ in range(5))
    slow.trajectories[0].metrics["duration"] = 3.0
    other.trajectories[0].reward = 0.5
    with_tools.trajectories[0].tools = [PRESS]
    asked: Any = [{"role": "user", "content": "And now?"}]
    with_history.trajectories[0].additional_histories = [History(messages_and_choices=asked)]
    assert digest_of(encode_groups([slow])) == digest_of(encode_groups([plain]))
    different = (plain, other, with_tools, with_history)
    assert len({digest_of(encode_groups([one])) for one in different}) == 4


async def test_a_repeated_step_gets_its_old_result(run: Trained, backend: CountingBackend) -> None:
    first = await run.train(0, 1, learning_rate=0.1)
    again = await run.train(0, 1, learning_rate=0.1)
    assert (first.step, first.metrics) == (again.step, again.metrics)
    assert first.metrics["learning_rate"] == 0.1
    with pytest.raises(StepConflict, match="trained already on other groups"):
        await run.train(1, 0)
    with pytest.raises(StepConflict, match="at step 1 of m, not at 7"):
        await run.train(1, 0, step=7)
    assert backend.trained == 1


async def test_a_full_disk_repeats_no_training(run: Trained, backend: CountingBackend) -> None:
    def fail(journal: Journal, step: int, _: object) -> None:
        (journal.checkpoint(step + 1) / "metrics.json").write_text('{"loss/train": 0.5}')
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Journal, "finished", fail)
        with pytest.raises(TrainerError, match="No space left"):
            await run.train(0, 1)
    again = await run.train(0, 1)
    assert (again.step, again.metrics, backend.trained) == (1, {"loss/train": 0.5}, 1)


async def test_a_training_that_fails_once_its_weights_are_saved_is_never_taken_for_whole(
    run: Trained, backend: CountingBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is served may be an older adapter."""
    train = backend.train

    async def fail(*given: Any, **options: Any) -> None:
        await train(*given, **options)
        folder = Journal(backend.path / "p" / "models" / "m").checkpoint(1)
        (folder / "metrics.json").write_text("{}")
        raise StaleAdapter("vLLM serves nothing as m@1.")

    monkeypatch.setattr(backend, "train", fail)
    with pytest.raises(StaleAdapter):
        await run.train(0, 1)
    with pytest.raises(StepConflict, match="at step 1 of m, not at 0"):
        await run.train(0, 1)


async def test_arts_deletion_reaches_the_backend(run: Trained, backend: CountingBackend) -> None:
    backend.step = 3
    await run.model.delete_checkpoints()
    assert backend.kept == [3]


async def test_of_two_for_one_step_one_trains(run: Trained, backend: CountingBackend) -> None:
    backend.may_train.clear()
    left = asyncio.create_task(run.train(0, 1))
    await until(lambda: backend.begun, "the training")
    other = asyncio.create_task(run.train(1, 0))
    left.cancel()
    with pytest.raises(asyncio.CancelledError):
        await left
    backend.may_train.set()
    with pytest.raises(StepConflict, match="trained already on other groups"):
        await other
    result = await run.train(0, 1)
    assert (result.step, backend.trained) == (1, 1)


async def test_a_trainer_says_what_it_holds_of_a_run_until_the_next(run: Trained) -> None:
    assert (await run.trainer.state(run.model)).run == ""
    await run.begin()
    await run.train(0, 1, run="a-run", note={"seen": 1})
    state = await run.trainer.state(run.model)
    assert (state.run, sorted(state.checkpoints), sorted(state.trained)) == ("a-run", [0, 1], [0])
    assert state.trained[0].note == {"seen": 1}
    assert [file.path for file in state.checkpoints[1]] == ["weights"]
    await run.trainer.begin(run.model, "another")
    state = await run.trainer.state(run.model)
    assert (state.run, state.checkpoints, state.trained) == ("another", {}, {})


async def test_a_model_with_other_settings_is_loaded_anew(tmp_path: Path) -> None:
    backend = CountingBackend(tmp_path)
    host = TrainerService(backend, tmp_path)
    engine = {"engine": {"packed_tokens": 4096}}
    another = SPEC.model_copy(update={"base_model": "another"})
    for spec in (SPEC, SPEC, another, another.model_copy(update={"internal_config": engine})):
        await host.register(spec)
    assert backend.forgotten == ["b", "another"]
    assert backend.registered[1:] == [("b", None), ("another", None), ("another", engine)]


async def test_another_run_is_refused_until_it_restores(run: Trained, tmp_path: Path) -> None:
    await run.begin()
    with pytest.raises(StepConflict, match="of the run a-run, not of another"):
        await run.train(0, 1, run="another")
    store = FolderStore(tmp_path / "store")
    await run.trainer.commit(run.model, 0, StoredModel(store=store.url, name="m", config="digest"))
    await run.trainer.restore(run.model, 0, StoredModel(store=store.url, name="m", run="another"))
    assert (await run.train(0, 1, run="another")).step == 1


async def test_a_checkpoint_without_its_metrics_is_dropped(tmp_path: Path) -> None:
    backend = CountingBackend(tmp_path)
    killed = TrainerService(backend, tmp_path)
    await killed.begin(SPEC, "a-run")
    await killed.register(SPEC)
    Journal(killed.folder(SPEC)).began(0, "groups", {"seen": 1})
    backend.step = 1
    backend._checkpoint(killed.models["m"])
    again = TrainerService(backend, tmp_path)
    state = TrainerState.model_validate(await again.state(SPEC))
    assert (sorted(state.checkpoints), state.trained) == ([0], {})
    assert not (killed.folder(SPEC) / "checkpoints" / "0001").exists()


@pytest.mark.parametrize("before", ["", '{"event": "began", "st'], ids=["new", "cut off"])
def test_a_training_is_logged_once_however_often_found(before: str, tmp_path: Path) -> None:
    """Also where a full disk has cut the log off."""
    log = tmp_path / "trainings.jsonl"
    log.write_text(before)
    journal = Journal(tmp_path)
    journal.belongs("a-run")
    journal.began(0, "groups", {})
    for _ in range(2):
        journal.finished(0, TrainedStep(digest="groups", result={"step": 1}, note={}))
    assert log.read_text().count('"trained"') == 1
    assert journal.trained(0) is not None and journal.pending is None


@pytest.mark.parametrize("path", ["no-such-file", "link"])
def test_only_a_checkpoints_own_files_are_sent(path: str, tmp_path: Path) -> None:
    host = TrainerService(CountingBackend(tmp_path), tmp_path)
    checkpoint = host.folder(SPEC) / "checkpoints" / "0000"
    checkpoint.mkdir(parents=True)
    (host.folder(SPEC) / "model.json").write_text("{}")
    (checkpoint / "link").symlink_to(host.folder(SPEC) / "model.json")
    with pytest.raises(TrainerError, match="has no file"):
        host.file(FileRequest(model=SPEC, step=0, path=path))


@pytest.mark.parametrize("reward", [float("nan"), float("inf")])
def test_a_reward_that_is_no_number_is_refused(reward: float) -> None:
    with pytest.raises(RolloutError, match="leave the rollout out"):
        encode_groups([group(reward)])


def test_a_second_trainer_there_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRECIS_TOKEN", TOKEN)
    monkeypatch.setattr("precis.trainer.server._LOCK_PATIENCE_S", 0.2)
    with (
        stopped_process(HOLD_LOCK, str(tmp_path / ".lock")) as holder,
        pytest.raises(SystemExit, match=f"stop it, or .* held by process {holder.pid} on "),
    ):
        serve_trainer(tmp_path)
