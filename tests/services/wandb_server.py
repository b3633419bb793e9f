"""W&B's server as far as its client needs it: GraphQL, the file stream, and uploads, over HTTP."""

import base64
import gzip
import json
import re
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from precis.llm.loop_server import LoopServer

_ENTITY = {"id": "RW50aXR5OjE=", "name": "team"}


class WandbServer:
    """Records what a client sends.

    Attributes:
        history: the rows that were logged, by run id.
        uploads: the files that were uploaded, by name.
        runs: how often each run id was opened.
        keys: the API keys that requests came with.
    """

    def __init__(self) -> None:
        self.history: dict[str, list[dict[str, Any]]] = {}
        self.uploads: dict[str, bytes] = {}
        self.runs: dict[str, int] = {}
        self.keys: set[str] = set()
        routes = [
            Route("/graphql", self._graphql, methods=["POST"]),
            Route("/files/{entity}/{project}/{run}/file_stream", self._stream, methods=["POST"]),
            Route("/upload/{name:path}", self._upload, methods=["PUT"]),
        ]
        self._server = LoopServer(Starlette(routes=routes))

    async def __aenter__(self) -> str:
        await self._server.start()
        self.url = f"http://127.0.0.1:{self._server.port}"
        return self.url

    async def __aexit__(self, *_: object) -> None:
        await self._server.stop()

    async def _graphql(self, request: Request) -> Response:
        body = await _json(request)
        _, _, encoded = request.headers.get("authorization", "").partition(" ")
        self.keys.add(base64.b64decode(encoded).decode().partition(":")[2])
        named = re.match(r"\s*(?:query|mutation)\s+(\w+)", body["query"])
        # An unnamed query asks who the key belongs to.
        answer = getattr(self, f"_on_{named.group(1) if named else 'Viewer'}", None)
        if answer is None:
            return JSONResponse({"errors": [{"message": "not served here"}]}, 400)
        return JSONResponse({"data": answer(body.get("variables") or {})})

    def _on_Viewer(self, _: Any) -> Any:
        return {"viewer": {"id": "1", "entity": "team", "flags": "{}"}}

    def _on_RunResumeStatus(self, variables: Any) -> Any:
        name = variables["name"]
        rows = self.history.get(name, [])
        bucket = {
            "name": name,
            "summaryMetrics": "{}",
            "logLineCount": 0,
            "historyLineCount": len(rows),
            "eventsLineCount": 0,
            "historyTail": json.dumps([json.dumps(row) for row in rows[-1:]]),
            "eventsTail": "[]",
            "config": "{}",
            "wandbConfig": '{"t": 1}',
        }
        known = bucket if name in self.runs else None
        return {"model": {"id": "1", "name": "precis", "entity": _ENTITY, "bucket": known}}

    def _on_UpsertBucket(self, variables: Any) -> Any:
        name = variables["name"]
        self.runs[name] = self.runs.get(name, 0) + 1
        project = {"id": "1", "name": variables["project"] or "precis", "entity": _ENTITY}
        bucket = {"id": name, "name": name, "project": project}
        return {"upsertBucket": {"bucket": bucket, "inserted": self.runs[name] == 1}}

    def _on_CreateRunFiles(self, variables: Any) -> Any:
        files = [
            {"name": name, "uploadUrl": f"{self.url}/upload/{name}"} for name in variables["files"]
        ]
        return {"createRunFiles": {"runID": variables["run"], "uploadHeaders": [], "files": files}}

    async def _stream(self, request: Request) -> Response:
        body = await _json(request)
        chunk = (body.get("files") or {}).get("wandb-history.jsonl")
        if chunk:
            rows = [json.loads(line) for line in chunk["content"]]
            self.history.setdefault(request.path_params["run"], []).extend(rows)
        return JSONResponse({})

    async def _upload(self, request: Request) -> Response:
        self.uploads[request.path_params["name"]] = await request.body()
        return Response()


async def _json(request: Request) -> Any:
    body = await request.body()
    return json.loads(gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body)
