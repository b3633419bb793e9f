"""The client of a trainer: an `art.Backend`, so that ART's own model works against it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any

import art
import httpx
from art import dev
from art.types import TrainResult, TrainSFTConfig

from precis import errors
from precis.errors import PrecisError, TrainerError, TrainerLost
from precis.tls import tls_for
from precis.trainer.protocol import (
    HEARTBEAT_S,
    CheckpointRequest,
    Event,
    Json,
    ModelSpec,
    TrainRequest,
    digest_of,
    encode_groups,
)

_TIMEOUT = httpx.Timeout(5 * HEARTBEAT_S, connect=5, write=60)
_RECONNECTS = (0.2, 0.5, 1, 2, 4)
"""Pauses before each new try of a connection that was lost without a sign of life, in seconds."""

Model = art.TrainableModel[Any, Any]


class RemoteTrainer:
    """Talks to a trainer server as if its backend were in this process.

    Args:
        url: the server's address without a trailing slash.
        token: its bearer token.
        path: where this process keeps ART's own files (trajectories, history).
        progress: told what the trainer reports while it trains.

    Every method raises what the server raised, and TrainerLost when it no longer answers. Each
    call may be repeated: a connection that breaks is taken up again, and work that went on
    meanwhile is attached to, not done twice.
    """

    def __init__(
        self,
        url: str,
        token: str,
        path: Path,
        progress: Callable[[Json], None] = lambda data: None,
    ) -> None:
        self.url, self._token, self._path, self._progress = url, token, path, progress
        self._http = httpx.AsyncClient(
            base_url=url,
            headers={"authorization": f"Bearer {token}"},
            timeout=_TIMEOUT,
            verify=tls_for(url),
        )

    # What art.Backend asks for.

    async def register(self, model: art.Model[Any, Any]) -> None:
        """Register the model with the trainer; its files on this side go under `path`."""
        model.base_path = str(self._path)

    async def _prepare_backend_for_training(
        self, model: Model, config: dev.OpenAIServerConfig | None
    ) -> tuple[str, str]:
        await self._long("/register", _spec(model).model_dump())
        return f"{self.url}/v1", self._token

    def _model_inference_name(self, model: art.Model[Any, Any], step: int | None = None) -> str:
        return model.name if step is None else f"{model.name}@{step}"

    async def _get_step(self, model: Model) -> int:
        return int((await self._short("/step", _spec(model).model_dump()))["step"])

    async def train(
        self, model: Model, trajectory_groups: Iterable[art.TrajectoryGroup], **kwargs: Any
    ) -> TrainResult:
        """Train one step, exactly once.

        Args:
            step: the step; by default the one that the trainer is at.
            kwargs: the backend's own options, such as `learning_rate`.

        Raises:
            StepConflict: the step was trained already on other groups.
        """
        step = kwargs.pop("step", None)
        groups = encode_groups(trajectory_groups)
        request = TrainRequest(
            model=_spec(model),
            step=await self._get_step(model) if step is None else step,
            digest=digest_of(groups),
            groups=groups,
            options=kwargs,
        )
        result = await self._long("/train", request.model_dump())
        return TrainResult(step=result["step"], metrics=result["metrics"])

    async def _delete_checkpoint_files(self, model: Model, steps_to_keep: list[int]) -> None:
        body = {"spec": _spec(model).model_dump(), "steps": steps_to_keep}
        await self._short("/checkpoints_to_keep", body)

    async def _train_sft(
        self,
        model: Model,
        trajectories: Iterable[art.Trajectory],
        config: TrainSFTConfig,
        dev_config: dev.TrainSFTConfig,
        verbose: bool = False,
    ) -> AsyncIterator[dict[str, float]]:
        raise TrainerError("Précis trains by reinforcement only: use train, not train_sft.")
        yield {}  # makes this the asynchronous generator that ART expects

    async def close(self) -> None:
        await self._http.aclose()

    # What Précis adds.

    async def commit(self, model: Model, step: int, store: str, name: str, config: str) -> None:
        """Have the trainer put a checkpoint into the store: files, manifest, pointer."""
        await self._checkpoint("commit", model, step, store, name, config)

    async def restore(self, model: Model, step: int, store: str, name: str) -> None:
        """Have the trainer continue from a checkpoint of the store; call before `register`."""
        await self._checkpoint("restore", model, step, store, name)

    async def fetch(self, model: Model, step: int, store: str, name: str) -> None:
        """Have the trainer serve a checkpoint of the store beside the others."""
        await self._checkpoint("fetch", model, step, store, name)

    async def _checkpoint(
        self, action: str, model: Model, step: int, store: str, name: str, config: str = ""
    ) -> None:
        request = CheckpointRequest(
            model=_spec(model), step=step, store=store, name=name, config=config
        )
        await self._long(f"/checkpoints/{action}", request.model_dump())

    async def _long(self, path: str, body: Json) -> Json:
        """Start or attach to a long operation and wait for its end, over broken connections."""
        failures = 0
        while True:
            try:
                async for event in self._events(path, body):
                    failures = 0
                    if event.event == "result":
                        return event.data
                    if event.event == "error":
                        raise _error(event.data)
                    if event.event == "progress":
                        self._progress(event.data)
                raise httpx.RemoteProtocolError("The trainer's answer ended before its result.")
            except httpx.TransportError as error:
                if failures == len(_RECONNECTS):
                    raise self._lost(error) from error
                await asyncio.sleep(_RECONNECTS[failures])
                failures += 1

    async def _events(self, path: str, body: Json) -> AsyncIterator[Event]:
        async with self._http.stream("POST", path, json=body) as answer:
            if answer.is_error:
                raise _refusal(answer.status_code, await answer.aread())
            async for line in answer.aiter_lines():
                yield Event.model_validate_json(line)

    async def _short(self, path: str, body: Json) -> Json:
        try:
            answer = await self._http.post(path, json=body)
        except httpx.TransportError as error:
            raise self._lost(error) from error
        if answer.is_error:
            raise _refusal(answer.status_code, answer.content)
        result: Json = answer.json()
        return result

    def _lost(self, error: Exception) -> TrainerLost:
        return TrainerLost(f"The trainer at {self.url} no longer answers ({error!r}).")


def _spec(model: art.Model[Any, Any]) -> ModelSpec:
    return ModelSpec(
        name=model.name,
        project=model.project,
        base_model=getattr(model, "base_model", ""),
        internal_config=getattr(model, "_internal_config", None),
    )


def _refusal(status: int, body: bytes) -> PrecisError:
    try:
        return _error(httpx.Response(status, content=body).json())
    except (ValueError, KeyError):
        return TrainerError(f"The trainer answered {status}: {body[:200].decode(errors='replace')}")


def _error(data: Json) -> PrecisError:
    """The error that the server raised, by its name."""
    kind = getattr(errors, data["type"], TrainerError)
    error: PrecisError = kind(data["message"])
    return error
