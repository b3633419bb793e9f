"""A trainer with every second checkpoint as large as an adapter, and slow answers.

BENCH_MB is what it adds to the checkpoints of odd steps, BENCH_ANSWER_S what each answer takes
longer.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from pathlib import Path
from typing import Annotated, Any

import typer
from art import TrajectoryGroup
from art.backend import AnyTrainableModel
from art.types import LocalTrainResult

from precis.processes.child import TOKEN_VARIABLE, serve
from precis.rehearsal.backend import EmbeddedBackend, Progress
from precis.rehearsal.extractive.kind import SENTENCES
from precis.trainer.server import trainer_app

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[None]]


class HeavyBackend(EmbeddedBackend):
    """The embedded policy, with a large file in the checkpoint of each odd step."""

    def __init__(self, path: Path, megabytes: int) -> None:
        super().__init__(SENTENCES, path=path)
        self._ballast = os.urandom(1_000_000 * megabytes)

    async def train(
        self,
        model: AnyTrainableModel,
        trajectory_groups: Iterable[TrajectoryGroup],
        on_progress: Progress | None = None,
        **options: Any,
    ) -> LocalTrainResult:
        result = await super().train(model, trajectory_groups, on_progress, **options)
        if result.step % 2:
            adapter = Path(result.checkpoint_path or "") / "adapter_model.safetensors"
            await asyncio.to_thread(adapter.write_bytes, self._ballast)
        return result


def slowed(app: App, seconds: float) -> App:
    """An app that answers to completions so much later."""

    async def answer(scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"].startswith("/v1/chat"):
            await asyncio.sleep(seconds)
        await app(scope, receive, send)

    return answer


def main(
    path: Annotated[Path, typer.Option()],
    seed: int = 1,
    with_parent: bool = False,
    backend: Annotated[str, typer.Option()] = "extractive",
) -> None:
    """Serve it as `precis.trainer.server` does, which takes these options."""
    assert backend == "extractive", "the heavy backend is an extractive one"
    heavy = HeavyBackend(path, int(os.environ["BENCH_MB"]))
    app = trainer_app(heavy, path, os.environ[TOKEN_VARIABLE])
    serve(slowed(app, float(os.environ["BENCH_ANSWER_S"])), with_parent=with_parent)


if __name__ == "__main__":
    typer.run(main)
