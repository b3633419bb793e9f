"""A server that speaks as much of the Hub's API as an upload takes, and keeps what it is given.

As in huggingface_hub: repositories are made by `/api/repos/create`, `/preupload/` says which files
go through Git LFS, `/objects/batch` where those are put, and `/commit/` takes the rest as NDJSON.
"""

import base64
import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

import yaml
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

_LFS = (".safetensors", ".gguf")


@dataclass
class HubServer:
    """The Hub, for one token.

    Attributes:
        repos: each repository, and whether it is private.
        files: what each commit has put where, by repository and path.
        messages: of the commits.
        objects: the large files, by their digest.
        takes_objects: whether more of those are taken.
    """

    token: str
    repos: dict[str, bool] = field(default_factory=dict)
    files: dict[tuple[str, str], bytes] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)
    objects: dict[str, bytes] = field(default_factory=dict)
    takes_objects: bool = True

    def app(self) -> Starlette:
        """The server as an ASGI app."""
        repo = "{owner}/{name}"
        return Starlette(
            routes=[
                Route("/api/repos/create", self._create, methods=["POST"]),
                Route("/api/validate-yaml", self._validate, methods=["POST"]),
                Route(f"/api/models/{repo}/preupload/main", self._preupload, methods=["POST"]),
                Route(f"/{repo}.git/info/lfs/objects/batch", self._batch, methods=["POST"]),
                Route("/objects/{oid}", self._put, methods=["PUT"]),
                Route(f"/api/models/{repo}/commit/main", self._commit, methods=["POST"]),
            ]
        )

    def _is_refused(self, request: Request) -> bool:
        return request.headers.get("authorization") != f"Bearer {self.token}"

    async def _create(self, request: Request) -> Response:
        if self._is_refused(request):
            return JSONResponse({"error": f"No to {request.headers['authorization']}"}, 401)
        asked = await request.json()
        name = f"{asked['organization']}/{asked['name']}"
        if asked["organization"] == "somebody-else":
            return JSONResponse({"error": "Not yours."}, 403)
        if name in self.repos:
            return JSONResponse({"error": "You already created this."}, 409)
        self.repos[name] = asked.get("visibility") == "private"
        return JSONResponse({"url": f"{request.base_url}{name}"})

    async def _validate(self, request: Request) -> Response:
        head = (await request.json())["content"].split("---\n")[1]
        if "license" not in yaml.safe_load(head):
            return JSONResponse({"errors": [{"message": "No metadata."}]}, 400)
        return JSONResponse({"errors": [], "warnings": []})

    async def _preupload(self, request: Request) -> Response:
        asked = (await request.json())["files"]
        files = [
            {
                "path": one["path"],
                "uploadMode": "lfs" if one["path"].endswith(_LFS) else "regular",
                "shouldIgnore": False,
            }
            for one in asked
        ]
        return JSONResponse({"files": files})

    async def _batch(self, request: Request) -> Response:
        objects = [
            {
                **one,
                "actions": {"upload": {"href": f"{request.base_url}objects/{one['oid']}"}},
            }
            for one in (await request.json())["objects"]
        ]
        return JSONResponse({"transfer": "basic", "objects": objects})

    async def _put(self, request: Request) -> Response:
        content = await request.body()
        if (
            not self.takes_objects
            or hashlib.sha256(content).hexdigest() != request.path_params["oid"]
        ):
            return Response(status_code=400)
        self.objects[request.path_params["oid"]] = content
        return Response()

    async def _commit(self, request: Request) -> Response:
        repo = "{owner}/{name}".format(**request.path_params)
        for line in (await request.body()).splitlines():
            self._take(repo, **json.loads(line))
        url = f"{request.base_url}{repo}/commit/{'c' * 40}"
        return JSONResponse({"commitUrl": url, "commitOid": "c" * 40})

    def _take(self, repo: str, key: str, value: dict[str, Any]) -> None:
        if key == "header":
            self.messages.append(value["summary"])
        elif key == "file":
            self.files[repo, value["path"]] = base64.b64decode(value["content"])
        else:
            self.files[repo, value["path"]] = self.objects[value["oid"]]
