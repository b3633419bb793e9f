"""W&B's serverless training behind our trainer, against a server that speaks its protocol."""

from collections.abc import AsyncIterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import art
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from precis.errors import ConfigError, TrainerError
from precis.runs.checkpoints import commit
from precis.store import FolderStore
from precis.trainer.journal import Journal
from precis.trainer.protocol import StoredModel
from precis.trainer.serverless import WandbBackend, open_wandb
from tests.support.local_server import serving
from tests.support.trainers import Model, Trained, complete, trainer_of

KEY = "k" * 40


@dataclass
class Wandb:
    """W&B's training API: one model, whose steps are its checkpoints."""

    steps: list[int] = field(default_factory=list)
    deleted: list[int] = field(default_factory=list)
    jobs: list[Any] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    url: str = ""

    def app(self) -> Starlette:
        at = "/v1/preview"
        return Starlette(
            routes=[
                Route(f"{at}/models", self.create, methods=["POST"]),
                Route(f"{at}/models/id/checkpoints", self.checkpoints),
                Route(f"{at}/models/id/checkpoints", self.delete, methods=["DELETE"]),
                Route(f"{at}/training-jobs", self.train, methods=["POST"]),
                Route(f"{at}/training-jobs/job/events", self.events),
                Route("/v1/chat/completions", self.complete, methods=["POST"]),
            ]
        )

    async def create(self, request: Request) -> Response:
        if request.headers["authorization"] != f"Bearer {KEY}":
            return JSONResponse({"error": {"message": "Who are you?"}}, 401)
        body = await request.json()
        return JSONResponse({**body, "id": "id", "entity": "us", "run_id": "r"})

    async def checkpoints(self, request: Request) -> Response:
        steps = sorted(self.steps, reverse=request.query_params.get("order") == "desc")
        data = [{"id": f"c{step}", "step": step, "metrics": {}} for step in steps]
        return JSONResponse({"data": data, "has_more": False})

    async def delete(self, request: Request) -> Response:
        self.deleted += (steps := (await request.json())["steps"])
        self.steps = [step for step in self.steps if step not in steps]
        return JSONResponse({"deleted_count": len(steps), "not_found_steps": []})

    async def train(self, request: Request) -> Response:
        self.jobs.append(await request.json())
        self.steps.append(max(self.steps, default=0) + 1)
        return JSONResponse({"id": "job"})

    async def events(self, _: Request) -> Response:
        said: list[tuple[str, dict[str, float]]] = [
            ("training_started", {"num_sequences": 2}),
            ("gradient_step", {"loss": 0.5}),
            ("training_ended", {}),
        ]
        data = [{"id": kind, "type": kind, "data": details} for kind, details in said]
        return JSONResponse({"data": data, "has_more": False})

    async def complete(self, request: Request) -> Response:
        model = (await request.json())["model"]
        self.asked.append(model)
        message = {"role": "assistant", "content": "A summary."}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        answer = {"id": "1", "object": "chat.completion", "created": 1, "model": model}
        return JSONResponse({**answer, "choices": [choice]})


class Backend(WandbBackend):
    """Its checkpoints are files of this test's; W&B's artifacts speak another protocol."""

    def _pull(self, model: Model, step: int, into: Path) -> None:
        into.mkdir(parents=True, exist_ok=True)
        (into / "adapter_model.safetensors").write_text(f"weights {step}")


@pytest.fixture
async def wandb() -> AsyncIterator[Wandb]:
    service = Wandb()
    async with serving(service.app()) as url:
        service.url = f"{url}/v1"
        yield service


@pytest.fixture
async def run(wandb: Wandb, tmp_path: Path) -> AsyncIterator[Trained]:
    # ART's first training does, and a client would hear of no such trainer for too long.
    import_module("wandb")
    model: Model = art.TrainableModel(name="m", project="p", base_model="qwen", report_metrics=[])
    async with trainer_of(Backend(tmp_path / "trainer", KEY, wandb.url), tmp_path) as trainer:
        yield Trained(trainer, model)


async def test_a_step_of_wandb_is_committed(wandb: Wandb, run: Trained, tmp_path: Path) -> None:
    await run.begin()
    answer = await complete(
        run.model,
        model=run.model.get_inference_name(0),
        messages=[{"role": "user", "content": "summarize"}],
    )
    assert (wandb.asked, answer.model) == (["wandb-artifact:///us/p/m:step0"], "m@0")
    result = await run.train(0, 1, run="a-run")
    assert (result.step, len(wandb.jobs)) == (1, 1)
    assert 0.5 in result.metrics.values()
    store = FolderStore(tmp_path / "store")
    stored = StoredModel(store=store.url, name="m", config="digest")
    checkpoint = await run.trainer.commit(run.model, 1, stored)
    names = [file.path for file in checkpoint.files]
    assert names == ["adapter_model.safetensors", "metrics.json"]
    again = await run.train(0, 1, run="a-run")
    assert (again.metrics, len(wandb.jobs)) == (result.metrics, 1)


@pytest.mark.parametrize(
    ("place", "method", "jobs", "deleted"),
    [(Backend, "_pull", 2, [1]), (Journal, "finished", 1, [])],
    ids=["its checkpoint did not come", "it came"],
)
async def test_a_step_that_was_cut_off_is_trained_again_only_where_its_checkpoint_did_not_come(
    place: type, method: str, jobs: int, deleted: list[int], wandb: Wandb, run: Trained
) -> None:
    """What came is paid for once."""

    def fail(*_: object) -> None:
        raise OSError("The network is down.")

    await run.begin()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(place, method, fail)
        with pytest.raises(TrainerError, match="The network is down"):
            await run.train(0, 1, run="a-run")
    result = await run.train(0, 1, run="a-run")
    assert (result.step, wandb.steps) == (1, [1])
    assert (len(wandb.jobs), wandb.deleted) == (jobs, deleted)
    assert 0.5 in result.metrics.values()


@pytest.mark.parametrize(
    ("begun", "held", "refusal", "deleted"),
    [
        ("anew", [1], None, [1]),  # trained, and never committed
        ("anew", [1, 2, 3], "trained to step 3 already", []),  # by another run
        ("to be served", [1, 2], None, []),  # in training, the second not yet committed
        ("at step 4", [3, 4, 5, 6], None, [5, 6]),
        ("at step 4", [3], "lacks checkpoint 4", []),
    ],
)
async def test_what_wandb_holds_and_this_run_did_not_commit_is_deleted_by_who_trains_alone(
    begun: str,
    held: list[int],
    refusal: str | None,
    deleted: list[int],
    wandb: Wandb,
    run: Trained,
    tmp_path: Path,
) -> None:
    wandb.steps = held
    if begun == "anew":
        await run.trainer.begin(run.model, "a-run")
    elif begun == "to be served":
        await run.trainer.fetch(run.model, 1, stored(run.model, 1, tmp_path))
    else:
        await run.trainer.restore(run.model, 4, stored(run.model, 4, tmp_path))
    with pytest.raises(TrainerError, match=refusal) if refusal else nullcontext():
        await run.model.register(run.trainer)
    assert wandb.deleted == deleted


def stored(model: Model, step: int, tmp_path: Path) -> StoredModel:
    """A checkpoint in a store that W&B knows nothing of."""
    store, folder = FolderStore(tmp_path / "store"), tmp_path / "checkpoint"
    Backend._pull(None, model, step, folder)  # type: ignore[arg-type]
    commit(store, "m", step, folder, "digest")
    return StoredModel(store=store.url, name="m", run="a-run")


def test_without_a_key_the_sentence_names_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="WANDB_API_KEY"):
        open_wandb(tmp_path)
