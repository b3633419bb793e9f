"""A server that speaks as much of the Hub's API as an upload takes, and keeps what it is given.

As in huggingface_hub: repositories are made by `/api/repos/create`, `/preupload/` says which files
go through Git LFS, `/objects/batch` where those are put, and `/commit/` takes the rest as NDJSON.
"""

import base64
import json
from dataclasses import dataclass, field

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
                Route(f"/api/models/{repo}/settings", self._settings, methods=["PUT"]),
                Route(f"/api/models/{repo}/preupload/main", self._preupload, methods=["POST"]),
                Route(f"/{repo}.git/info/lfs/objects/batch", self._batch, methods=["POST"]),
                Route("/objects/{oid}", self._put, methods=["PUT"]),
                Route(f"/api/models/{repo}/commit/main", self._commit, methods=["POST"]),
            ]
        )

    async def _create(self, request: Request) -> Response:
        if request.headers.get("authorization") != f"Bearer {self.token}":
            return JSONResponse({"error": f"No to {request.headers['authorization']}"}, 401)
        asked = await request.json()
        name = f"{asked['organization']}/{asked['name']}"
        if asked["organization"] == "somebody-else":
            return JSONResponse({"error": "Not yours."}, 403)
        url = f"{request.base_url}{name}"
        if name in self.repos:
            return JSONResponse({"error": "You already created this.", "url": url}, 409)
        self.repos[name] = asked.get("visibility") == "private"
        return JSONResponse({"url": url})

    async def _settings(self, request: Request) -> Response:
        repo = "{owner}/{name}".format(**request.path_params)
        self.repos[repo] = (await request.json())["visibility"] == "private"
        return JSONResponse({})

    async def _validate(self, request: Request) -> Response:
        head = (await request.json())["content"].split("---\n")[1]
        if "license" not in yaml.safe_load(head):
            return JSONResponse({"errors": [{"message": "No metadata."}]}, 400)
        return JSONResponse({"errors": [], "warnings": []})

    async def _preupload(self, request: Request) -> Response:
        files = []
        for one in (await request.json())["files"]:
            mode = "lfs" if one["path"].endswith(_LFS) else "regular"
            files.append({"path": one["path"], "uploadMode": mode, "shouldIgnore": False})
        return JSONResponse({"files": files})

    async def _batch(self, request: Request) -> Response:
        objects = []
        for one in (await request.json())["objects"]:
            upload = {"href": f"{request.base_url}objects/{one['oid']}"}
            objects.append({**one, "actions": {"upload": upload}})
        return JSONResponse({"transfer": "basic", "objects": objects})

    async def _put(self, request: Request) -> Response:
        if not self.takes_objects:
            return Response(status_code=400)
        self.objects[request.path_params["oid"]] = await request.body()
        return Response()

    async def _commit(self, request: Request) -> Response:
        repo = "{owner}/{name}".format(**request.path_params)
        for line in (await request.body()).splitlines():
            entry = json.loads(line)
            value = entry["value"]
            if entry["key"] == "header":
                self.messages.append(value["summary"])
            elif entry["key"] == "file":
                self.files[repo, value["path"]] = base64.b64decode(value["content"])
            else:
                self.files[repo, value["path"]] = self.objects[value["oid"]]
        url = f"{request.base_url}{repo}/commit/{'c' * 40}"
        return JSONResponse({"commitUrl": url, "commitOid": "c" * 40})
