"""A server that speaks the Tinker API to its own client, as far as a trainer of ours asks it, with
the faults that a service has. It learns: its model is `tinker_policy`."""

import itertools
import json
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from fastapi import FastAPI, HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from tests.services.patience import until
from tests.support.files import tar_of
from tests.support.tinker_policy import CopyingPolicy

KEY = "tml-0123456789abcdef0123456789abcdef"
BASE_MODEL = "copying/model"

Json = dict[str, Any]
Handler = Callable[[Json], Awaitable[Json]]


@dataclass(frozen=True)
class Fault:
    """What goes wrong with one request to a path.

    Attributes:
        path: behind /api/v1/.
        kind: `refuse` with a status; `cut` the connection before the request is taken, or after
            (`lose` the answer); `restart`, and so forget what is not saved.
    """

    path: str
    kind: Literal["refuse", "cut", "lose", "restart"]
    status: int = 503


@dataclass
class _Model:
    """A model in a session; `results` are by the number of the request in its sequence."""

    policy: CopyingPolicy
    results: dict[int, str] = field(default_factory=dict)
    turn: int = 1


class TinkerServer:
    """The server.

    Attributes:
        key: that it asks for.
        faults: still to come; each is used up by one request.
        withholds: no result is there when it is asked for.
        asked: the paths of all requests, in order.
        learned: the data of each forward_backward that was done, with its loss.
        moved: the models whose optimizer has moved, one entry for each move.
        ids: of all that it makes; no two are alike.
        only_newest: sample from what a model has now, as SkyRL does.
    """

    def __init__(self, end: int, *, only_newest: bool = False) -> None:
        self.key = KEY
        self.faults: deque[Fault] = deque()
        self.withholds = False
        self.asked: list[str] = []
        self.learned: list[Json] = []
        self.moved: list[str] = []
        self.created: list[Json] = []
        self.saved: dict[str, CopyingPolicy] = {}
        self.only_newest = only_newest
        self._end = end
        self.ids = itertools.count(1)
        self._forget()

    def _forget(self) -> None:
        self._sessions: set[str] = set()
        self.models: dict[str, _Model] = {}
        self._samplers: dict[str, Callable[[], CopyingPolicy]] = {}
        self._results: dict[str, Json] = {}

    def app(self) -> FastAPI:
        """Its face."""
        posts: dict[str, Handler] = {
            "client/config": self._config,
            "create_session": self._create_session,
            "session_heartbeat": self._heartbeat,
            "create_sampling_session": self._create_sampler,
            "create_model": self._create_model,
            "load_weights": self._load,
            "weights_info": self._weights_info,
            "forward_backward": self._forward_backward,
            "optim_step": self._optim_step,
            "save_weights": self._save,
            "save_weights_for_sampler": self._save_for_sampler,
            "asample": self._sample,
            "retrieve_future": self._retrieve,
        }
        app = FastAPI()  # whose errors are JSON
        for path, handler in posts.items():
            app.add_route(f"/api/v1/{path}", self._answering(path, handler), methods=["POST"])
        app.add_route("/api/v1/get_server_capabilities", self._capabilities)
        archive = "/api/v1/training_runs/{run}/checkpoints/{kind}/{name}/archive"
        app.add_route(archive, self._archive)
        app.add_route("/archives/{run}/{kind}/{name}", self._download)
        return app

    def _answering(self, path: str, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            self.asked.append(path)
            self._refuse_stranger(request)
            fault = self._next_fault(path)
            if fault and fault.kind == "refuse":
                raise HTTPException(fault.status, f"{KEY} has to wait")
            if fault and fault.kind == "cut":
                return _cut_off()
            if fault and fault.kind == "restart":
                self._forget()
            body = await handler(await request.json())
            if fault and fault.kind == "lose":
                return _cut_off()
            # The client asks for its configuration by a connection of its own, and leaves it open.
            last = {"connection": "close"} if path == "client/config" else {}
            return JSONResponse(body, headers=last)

        return answer

    def _refuse_stranger(self, request: Request) -> None:
        given = request.headers.get("x-api-key", "")
        if given != self.key:
            raise HTTPException(401, f"Invalid API key: {given}")

    def _next_fault(self, path: str) -> Fault | None:
        if self.faults and self.faults[0].path == path:
            return self.faults.popleft()
        return None

    async def _config(self, _: Json) -> Json:
        return {"use_pyqwest_transport": False}

    async def _create_session(self, _: Json) -> Json:
        name = f"session-{next(self.ids)}"
        self._sessions.add(name)
        return {"type": "create_session", "session_id": name}

    async def _heartbeat(self, body: Json) -> Json:
        self._find_session(body)
        return {"type": "session_heartbeat"}

    async def _create_sampler(self, body: Json) -> Json:
        self._find_session(body)
        saved = self._find_saved(body["model_path"])
        run = body["model_path"].split("/")[2]
        newest = self.only_newest
        policy = (lambda: self.models[run].policy) if newest else (lambda: saved)
        return {"sampling_session_id": self._open_sampler(policy)}

    async def _create_model(self, body: Json) -> Json:
        self._find_session(body)
        if body["base_model"] != BASE_MODEL:
            raise HTTPException(400, f"The base model {body['base_model']} is not supported.")
        self.created.append(body)
        name = f"run-{next(self.ids)}"
        self.models[name] = _Model(CopyingPolicy())
        return self._result({"model_id": name, "type": "create_model"})

    async def _load(self, body: Json) -> Json:
        def load(model: _Model) -> Json:
            if model.turn != 1:
                raise HTTPException(400, f"LoadWeights is not permitted with seq_id {model.turn}")
            saved = self._find_saved(body["path"])
            model.policy = saved.copied(with_optimizer=body["optimizer"])
            return {"path": body["path"], "type": "load_weights"}

        return await self._in_turn(body, load)

    async def _weights_info(self, body: Json) -> Json:
        self._find_saved(body["tinker_path"])
        return {"base_model": BASE_MODEL, "is_lora": True, "lora_rank": 32}

    async def _forward_backward(self, body: Json) -> Json:
        given = body["forward_backward_input"]
        loss = given["loss_fn"]
        if loss not in ("cross_entropy", "importance_sampling"):
            raise HTTPException(422, f"There is no loss {loss}.")

        def learn(model: _Model) -> Json:
            learned = [model.policy.learn(datum, loss) for datum in given["data"]]
            self.learned.append(given)
            outputs = [
                {"logprobs": {"data": row, "dtype": "float32", "shape": [len(row)]}}
                for _, row in learned
            ]
            return {
                "loss_fn_output_type": "ArrayRecord",
                "loss_fn_outputs": outputs,
                "metrics": {"loss:sum": sum(value for value, _ in learned)},
            }

        return await self._in_turn(body, learn)

    async def _optim_step(self, body: Json) -> Json:
        def move(model: _Model) -> Json:
            model.policy.move(body["adam_params"]["learning_rate"])
            self.moved.append(body["model_id"])
            return {"metrics": {}}

        return await self._in_turn(body, move)

    async def _save(self, body: Json) -> Json:
        path = f"tinker://{body['model_id']}/weights/{body['path']}"

        def save(model: _Model) -> Json:
            self.saved[path] = model.policy.copied()
            return {"path": path, "type": "save_weights"}

        return await self._in_turn(body, save)

    async def _save_for_sampler(self, body: Json) -> Json:
        def save(model: _Model) -> Json:
            if not body.get("path"):
                sampler = self._open_sampler(lambda: model.policy)
                return {"sampling_session_id": sampler}
            path = f"tinker://{body['model_id']}/sampler_weights/{body['path']}"
            self.saved[path] = model.policy.copied()
            return {"path": path, "type": "save_weights_for_sampler"}

        return await self._in_turn(body, save)

    async def _sample(self, body: Json) -> Json:
        sampler = self._samplers.get(body["sampling_session_id"])
        if sampler is None:
            raise HTTPException(404, "Sampling session not found")
        prompt = [id for chunk in body["prompt"]["chunks"] for id in chunk["tokens"]]
        params = body["sampling_params"]
        sequences = []
        for number in range(body["num_samples"]):
            tokens, logprobs = sampler().sample(
                prompt,
                params["max_tokens"],
                self._end,
                params["temperature"],
                (params.get("seed") or 0) + number,
            )
            reason = "stop" if tokens[-1] == self._end else "length"
            sequences.append({"tokens": tokens, "logprobs": logprobs, "stop_reason": reason})
        return self._result({"sequences": sequences, "type": "sample"})

    async def _retrieve(self, body: Json) -> Json:
        if body["request_id"] not in self._results:
            raise HTTPException(404, "Future not found")
        if self.withholds:
            return {"type": "try_again", "request_id": body["request_id"], "queue_state": "active"}
        return self._results[body["request_id"]]

    async def _capabilities(self, request: Request) -> Response:
        self._refuse_stranger(request)
        return JSONResponse({"supported_models": [{"model_name": BASE_MODEL}]})

    async def _archive(self, request: Request) -> Response:
        self._refuse_stranger(request)
        path = "/archives/{run}/{kind}/{name}".format_map(request.path_params)
        return RedirectResponse(f"{str(request.base_url).rstrip('/')}{path}", 302)

    async def _download(self, request: Request) -> Response:
        """The archive, for whoever has its address: the key is not to be sent here."""
        assert "x-api-key" not in request.headers
        path = "tinker://{run}/{kind}/{name}".format_map(request.path_params)
        weights = json.dumps(self.saved[path].logits.tolist()).encode()
        archive = tar_of(("adapter_config.json", b"{}"), ("adapter_model.json", weights))
        if self._next_fault("archives"):
            archive = archive[:1024]  # between the two
        return Response(archive, media_type="application/x-tar")

    async def _in_turn(self, body: Json, work: Callable[[_Model], Json]) -> Json:
        """Do what a model is asked for in the order of its requests; a repeat has the result."""
        model = self.models.get(body["model_id"])
        if model is None:
            raise HTTPException(404, f"Model {body['model_id']} not found")
        number = body["seq_id"]
        if number in model.results:
            return {"request_id": model.results[number]}
        await until(lambda: number <= model.turn, f"turn {number} of the model", pause_s=0.001)
        try:
            result = work(model)
        except ValueError as error:
            result = {"error": str(error), "category": "user"}
        model.turn += 1
        answer = self._result(result)
        model.results[number] = answer["request_id"]
        return answer

    def _result(self, result: Json) -> Json:
        name = f"request-{next(self.ids)}"
        self._results[name] = result
        return {"request_id": name}

    def _open_sampler(self, policy: Callable[[], CopyingPolicy]) -> str:
        name = f"sampling-{next(self.ids)}"
        self._samplers[name] = policy
        return name

    def _find_session(self, body: Json) -> None:
        if body["session_id"] not in self._sessions:
            raise HTTPException(404, "Session not found")

    def _find_saved(self, path: str) -> CopyingPolicy:
        if path not in self.saved:
            raise HTTPException(404, f"Checkpoint not found: {path}")
        return self.saved[path]


def _cut_off() -> Response:
    """An answer in whose middle the connection ends: it is shorter than announced."""
    return Response(b"{", headers={"content-length": "1000"}, media_type="application/json")
