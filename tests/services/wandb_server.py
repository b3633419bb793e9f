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
        artifacts: the names of the artifacts that were committed.
        runs: how often each run id was opened.
        keys: the API keys that requests came with.
    """

    def __init__(self) -> None:
        self.history: dict[str, list[dict[str, Any]]] = {}
        self.uploads: dict[str, bytes] = {}
        self.artifacts: list[str] = []
        self.runs: dict[str, int] = {}
        self.keys: set[str] = set()
        self._created: dict[str, str] = {}
        routes = [
            Route("/graphql", self._graphql, methods=["POST"]),
            Route("/files/{entity}/{project}/{run}/file_stream", self._stream, methods=["POST"]),
            Route("/upload/{name:path}", self._upload, methods=["PUT"]),
            Route("/upload/{name:path}", self._download, methods=["GET"]),
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
        teams = {"edges": [{"node": {"name": "team"}}]}
        return {"viewer": {"id": "1", "entity": "team", "flags": "{}", "teams": teams}}

    def _on_RunResumeStatus(self, variables: Any) -> Any:
        name = variables["name"]
        rows = self.history.get(name, [])
        bucket = {
            "id": name,
            "name": name,
            "summaryMetrics": "{}",
            "displayName": name,
            "logLineCount": 0,
            "historyLineCount": len(rows),
            "eventsLineCount": 0,
            "historyTail": json.dumps([json.dumps(row) for row in rows[-1:]]),
            "eventsTail": "[]",
            "config": "{}",
            "tags": [],
            "notes": None,
            "wandbConfig": '{"t": 1}',
        }
        known = bucket if name in self.runs else None
        return {"model": {"id": "1", "name": "precis", "entity": _ENTITY, "bucket": known}}

    def _on_UpsertBucket(self, variables: Any) -> Any:
        name = variables["name"]
        self.runs[name] = self.runs.get(name, 0) + 1
        project = {"id": "1", "name": variables["project"] or "precis", "entity": _ENTITY}
        bucket = {
            "id": name,
            "name": name,
            "displayName": variables.get("displayName") or name,
            "description": "",
            "config": variables.get("config") or "{}",
            "sweepName": None,
            "project": project,
            "historyLineCount": len(self.history.get(name, [])),
        }
        return {"upsertBucket": {"bucket": bucket, "inserted": self.runs[name] == 1}}

    def _on_CreateRunFiles(self, variables: Any) -> Any:
        files = [
            {"name": name, "uploadUrl": f"{self.url}/upload/{name}"} for name in variables["files"]
        ]
        return {"createRunFiles": {"runID": variables["run"], "uploadHeaders": [], "files": files}}

    def _on_CreateArtifact(self, variables: Any) -> Any:
        asked = variables["input"]
        name = asked["artifactCollectionName"]
        id = base64.b64encode(f"Artifact:{len(self._created)}".encode()).decode()
        self._created[id] = name
        sequence = {"id": "s", "latestArtifact": None}
        artifact = {"id": id, "state": "PENDING", "artifactSequence": sequence}
        return {"createArtifact": {"artifact": artifact}}

    def _on_ArtifactByID(self, variables: Any) -> Any:
        name = self._created[variables["id"]]
        project = {"name": "precis", "entity": {"name": "team"}}
        sequence = {"__typename": "ArtifactSequence", "name": name, "project": project}
        numbers = {"versionIndex": 0, "size": 1, "fileCount": 1, "ttlDurationSeconds": -1}
        nothing = dict.fromkeys(("description", "metadata", "historyStep", "commitHash"))
        at = {"createdAt": "2026-11-21T00:00:00Z", "updatedAt": "2026-11-21T00:00:00Z"}
        lists: dict[str, Any] = {"tags": [], "aliases": []}
        artifact = {"__typename": "Artifact", "id": variables["id"], "state": "COMMITTED"}
        kind = {"artifactType": {"name": "any"}, "artifactSequence": sequence}
        told = {"digest": "d", "ttlIsInherited": True}
        return {"artifact": artifact | kind | numbers | nothing | at | lists | told}

    def _on_FetchArtifactManifest(self, _: Any) -> Any:
        file = {"directUrl": f"{self.url}/upload/manifest.json"}
        return {"artifact": {"currentManifest": {"id": "m", "file": file}}}

    def _on_OrganizationCoreWeaveOrganizationID(self, _: Any) -> Any:
        return {"entity": {"organization": None}}

    def _on_CreateArtifactManifest(self, variables: Any) -> Any:
        url = f"{self.url}/upload/manifest.json" if variables.get("includeUpload") else None
        file: dict[str, Any] = {"id": "f", "uploadUrl": url, "uploadHeaders": []}
        return {"createArtifactManifest": {"artifactManifest": {"id": "m", "file": file}}}

    def _on_CreateArtifactFiles(self, variables: Any) -> Any:
        edges = [
            {
                "node": {
                    "storagePath": each["name"],
                    "uploadUrl": f"{self.url}/upload/artifact/{each['name']}",
                    "uploadHeaders": [],
                    "uploadMultipartUrls": None,
                    "artifact": {"id": each["artifactID"]},
                }
            }
            for each in variables["artifactFiles"]
        ]
        return {"createArtifactFiles": {"files": {"edges": edges}}}

    def _on_CommitArtifact(self, variables: Any) -> Any:
        id = variables["artifactID"]
        self.artifacts.append(self._created[id])
        return {"commitArtifact": {"artifact": {"id": id, "digest": "d"}}}

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

    async def _download(self, request: Request) -> Response:
        return Response(self.uploads[request.path_params["name"]])


async def _json(request: Request) -> Any:
    body = await request.body()
    return json.loads(gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body)
