"""The client of a trainer: an `art.Backend`, so that ART's own model works against it."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import art
import httpx
from art import dev
from art.types import TrainResult
from pydantic import BaseModel, ValidationError

from precis import errors
from precis.cluster.site import TrainerAddress
from precis.errors import PrecisError, TrainerError, TrainerLost
from precis.llm.connections import tls_for
from precis.record import first_problem
from precis.records.ledger import StepRecord
from precis.records.manifests import Checkpoint
from precis.runs.checkpoints import files_in
from precis.settings.imitation import ImitatesInOnePass
from precis.trainer.guard import BODY_BYTES_MAX
from precis.trainer.protocol import (
    HEARTBEAT_S,
    CheckpointRequest,
    Event,
    FileRequest,
    Json,
    ModelSpec,
    StoredModel,
    TrainerState,
    TrainRequest,
    digest_of,
    encode_groups,
)

# A working trainer sends a heartbeat every HEARTBEAT_S; after five missing ones the connection is
# lost.
_TIMEOUT = httpx.Timeout(5 * HEARTBEAT_S, connect=5, write=60)
_RECONNECTS: tuple[float, ...] = (0.2, 0.5, 1, 2, 4)
"""Seconds before each retry of a connection that was lost without a heartbeat."""

_UNEXPLAINED = {"type": "TrainerError", "message": "The trainer failed and did not say why."}

Model = art.TrainableModel[Any, Any]
_Record = TypeVar("_Record", bound=BaseModel)


@dataclass
class RemoteTrainResult(TrainResult):
    """The result that ART expects of a training, and the digest of the groups it was trained on."""

    digest: str = ""


class RemoteTrainer(ImitatesInOnePass):
    """Talks to a trainer server as if its backend were in this process; its url has no trailing
    slash.

    Every method raises the server's error, and TrainerLost when the server no longer answers. Each
    may be repeated: it attaches to work that has continued, which is not done twice. ART's own
    files go under `path`.
    """

    def __init__(self, url: str, token: str, path: Path) -> None:
        self.url = url
        self._token = token
        self._path = path
        self._http = self._client()

    async def move_to(self, address: TrainerAddress) -> None:
        """Use a trainer at another address; models must be registered again."""
        await self._http.aclose()
        self.url = address.url
        self._token = address.token
        self._http = self._client()

    def _client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=self.url,
            # Uncompressed, to be read raw: ART has httpx keep all that is read otherwise.
            headers={"authorization": f"Bearer {self._token}", "accept-encoding": "identity"},
            timeout=_TIMEOUT,
            verify=tls_for(self.url),
            trust_env=False,  # no proxy reaches a loopback, and none may see the token
        )

    # The methods of art.Backend.

    async def register(self, model: art.Model[Any, Any]) -> None:
        """Register the model with the trainer; its files on this side go under `path`."""
        model.base_path = str(self._path)

    async def _prepare_backend_for_training(
        self, model: Model, config: dev.OpenAIServerConfig | None
    ) -> tuple[str, str]:
        await self._ask("/model/register", _spec(model).model_dump())
        return f"{self.url}/v1", self._token

    def _model_inference_name(self, model: art.Model[Any, Any], step: int | None = None) -> str:
        return model.name if step is None else f"{model.name}@{step}"

    async def _get_step(self, model: Model) -> int:
        return int((await self._ask("/model/step", _spec(model).model_dump()))["step"])

    async def train(
        self,
        model: Model,
        trajectory_groups: Iterable[art.TrajectoryGroup],
        *,
        step: int | None = None,
        run: str = "",
        note: Json | None = None,
        imitates: bool = False,
        **options: Any,
    ) -> RemoteTrainResult:
        """Train one step, exactly once; a StepConflict says that it was trained on other groups.

        Args:
            step: by default the trainer's present one.
            run: whose model it has to be; empty for any.
            note: kept with the result.
            imitates: whether to learn the last message of each trajectory, as by `train_sft`.
            options: the backend's, such as `learning_rate`.
        """
        groups = encode_groups(trajectory_groups)
        request = TrainRequest(
            model=_spec(model),
            run=run,
            note=note or {},
            step=await self._get_step(model) if step is None else step,
            digest=digest_of(groups),
            groups=groups,
            imitates=imitates,
            options=options,
        )
        # Dumping them once more would take as long as all the rest.
        body = {**request.model_dump(exclude={"groups"}), "groups": groups}
        result = await self._ask("/train", body)
        return RemoteTrainResult(result["step"], result["metrics"], request.digest)

    async def train_sft(
        self, model: Model, trajectories: Iterable[art.Trajectory], **kwargs: Any
    ) -> RemoteTrainResult:
        """Train one step by imitation of each trajectory's last message, as `train` does. The
        backend's options are `batch_size` and `learning_rates`, one for each update."""
        group = art.TrajectoryGroup(list(trajectories))
        return await self.train(model, [group], imitates=True, **kwargs)

    async def _delete_checkpoint_files(self, model: Model, steps_to_keep: list[int]) -> None:
        body = {"spec": _spec(model).model_dump(), "steps": steps_to_keep}
        await self._ask("/checkpoints_to_keep", body)

    async def close(self) -> None:
        await self._http.aclose()

    # Our own methods.

    async def state(self, model: Model) -> TrainerState:
        """Return the trainer's state of the model, registered or not; waits for a running
        training."""
        return _read(TrainerState, await self._ask("/model/state", _spec(model).model_dump()))

    async def begin(self, model: Model, run: str) -> None:
        """Have the trainer forget the model; call before `register`."""
        await self._ask("/begin", {"spec": _spec(model).model_dump(), "run": run})

    async def commit(
        self, model: Model, step: int, to: StoredModel, record: StepRecord | None = None
    ) -> Checkpoint:
        """Have the trainer put a checkpoint into the store, and return the manifest there. The
        lease of `to` must still be held when the manifest is written."""
        return _read(Checkpoint, await self._checkpoint("commit", model, step, to, record=record))

    async def restore(self, model: Model, step: int, of: StoredModel, digest: str = "") -> None:
        """Have the trainer continue from a checkpoint of the run `of`, to which the model belongs
        from here on; call before `register`. `digest` is the checkpoint's, if the ledger has one.
        """
        await self._checkpoint("restore", model, step, of, digest=digest)

    async def fetch(self, model: Model, step: int, of: StoredModel, digest: str = "") -> None:
        """Have the trainer serve a checkpoint of the store beside the others; see `restore`."""
        await self._checkpoint("fetch", model, step, of, digest=digest)

    async def save(self, model: Model, step: int, into: Path) -> None:
        """Copy a checkpoint of the trainer to a folder of this process, and compare it with the
        trainer's digests; a TrainerError says that the trainer has no such checkpoint, or sends
        other files."""
        held = (await self.state(model)).checkpoints
        if step not in held:
            raise TrainerError(f"The trainer at {self.url} holds no checkpoint {step}.")
        for file in held[step]:
            target = into / file.path
            target.parent.mkdir(parents=True, exist_ok=True)
            asked = FileRequest(model=_spec(model), step=step, path=file.path)
            try:
                async with self._http.stream("POST", "/file", json=asked.model_dump()) as answer:
                    await _raise_if_refused(answer)
                    with target.open("wb") as written:
                        async for piece in answer.aiter_raw():
                            written.write(piece)
                            if written.tell() > file.bytes:
                                break  # one without end would fill the disk
            except httpx.TransportError as error:
                raise self._loss_from(error) from error
        if not set(held[step]) <= set(files_in(into)):
            raise TrainerError(
                f"The trainer at {self.url} sent something else than the files of checkpoint "
                f"{step} that it said it holds."
            )

    async def _checkpoint(
        self, action: str, model: Model, step: int, stored: StoredModel, **more: Any
    ) -> Json:
        asked = CheckpointRequest(model=_spec(model), step=step, **dict(stored), **more)
        return await self._ask(f"/checkpoints/{action}", asked.model_dump(mode="json"))

    async def _ask(self, path: str, body: Json) -> Json:
        """Start or attach to an operation and wait for its end, over broken connections."""
        failures = 0
        while True:
            try:
                async for event in self._events(path, body):
                    failures = 0
                    if event.event == "result":
                        return event.data
                    if event.event == "error":
                        raise _error({**_UNEXPLAINED, **event.data})
                raise httpx.RemoteProtocolError("The trainer's answer ended before its result.")
            except httpx.TransportError as error:
                if failures == len(_RECONNECTS):
                    raise self._loss_from(error) from error
                await asyncio.sleep(_RECONNECTS[failures])
                failures += 1

    async def _events(self, path: str, body: Json) -> AsyncIterator[Event]:
        request = self._http.build_request("POST", path, json=body)
        if len(request.content) > BODY_BYTES_MAX:
            raise TrainerError(
                f"The request has {len(request.content)} bytes, and a trainer takes at most "
                f"{BODY_BYTES_MAX}: train on fewer or smaller groups."
            )
        async with aclosing(await self._http.send(request, stream=True)) as answer:
            await _raise_if_refused(answer)
            begun = bytearray()
            async for piece in answer.aiter_raw():
                *ends, rest = piece.split(b"\n")
                for end in ends:
                    yield _read(Event, bytes(begun + end))
                    begun.clear()
                begun += rest

    def _loss_from(self, error: Exception) -> TrainerLost:
        return TrainerLost(f"The trainer at {self.url} no longer answers ({error!r}).")


def _spec(model: art.Model[Any, Any]) -> ModelSpec:
    return ModelSpec(
        name=model.name,
        project=model.project,
        base_model=getattr(model, "base_model", ""),
        internal_config=getattr(model, "_internal_config", None),
    )


def _error(data: Json) -> PrecisError:
    """Return the error that the server raised, by its name; an unknown one is a TrainerError."""
    kind = getattr(errors, str(data["type"]), None)
    if not isinstance(kind, type) or not issubclass(kind, PrecisError):
        kind = TrainerError
    return kind(str(data["message"]))


def _read(kind: type[_Record], data: Json | bytes) -> _Record:
    """Read a trainer's reply as a record, and check it."""
    try:
        if isinstance(data, bytes):
            return kind.model_validate_json(data)
        return kind.model_validate(data)
    except ValidationError as error:
        raise TrainerError(
            f"The trainer's answer is no {kind.__name__}: {first_problem(error)}.",
            "It may run another version of Précis.",
        ) from error


async def _raise_if_refused(answer: httpx.Response) -> None:
    """Raise the error in an answer, if it is one."""
    if not answer.is_error:
        return
    content = await answer.aread()
    try:
        refusal = _error(json.loads(content))
    except (ValueError, KeyError, TypeError, RecursionError):
        said = content[:200].decode(errors="replace")
        refusal = TrainerError(f"The trainer answered {answer.status_code}: {said}")
    raise refusal
