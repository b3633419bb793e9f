"""The server of a model on this machine: this process for the embedded policy; for a LoRA adapter a
running one of ours, or one started for this. Other users' servers are not used: they would get a
key, and the document."""

import asyncio
import secrets
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
from pydantic import BaseModel, Field, ValidationError

from precis.cluster.gpus import gpus_suffice
from precis.environment import private_home
from precis.errors import ConfigError, ModelError, StoreError
from precis.llm.connections import BoundedClient, ReplyTooLarge
from precis.llm.loop_server import served_completions
from precis.llm.providers import NO_KEY, SERVER_KEY_VARIABLE, key_of_server
from precis.models.own_servers import Server, own_servers
from precis.models.reference import NamedCheckpoint, Reference, find_model, rank_models
from precis.models.serving import (
    VLLM_KEY_VARIABLE,
    ServerAddress,
    command_for_adapter,
    fetch_adapter,
    fetch_policy,
)
from precis.processes.causes import cause_in
from precis.processes.child import Child, free_port, run_child
from precis.processes.supervisor import SUPERVISE
from precis.store import Store

_LIST_TIMEOUT_S = 10.0
_LIST_BYTES_MAX = 2**20
_NAMES_SHOWN = 10
_ANSWER_TIMEOUT_S = 2.0
_START_TIMEOUT_S = 600.0
_POLL_S = 1.0


@asynccontextmanager
async def serve_model(
    model: NamedCheckpoint, context_tokens: int | None, note: Callable[[str], None]
) -> AsyncIterator[Server]:
    """Yield a server of this machine with a model; if started, it ends with the block. An adapter's
    context is by default that of training. Raises ConfigError if none is up, and none can be
    started here, and ModelError if the started server did not come up."""
    if model.kind == "policy":
        with TemporaryDirectory(prefix="precis-") as folder:
            endpoint = fetch_policy(model, Path(folder))
            async with served_completions(endpoint.complete, endpoint.models) as (url, key):
                yield Server(url=url, key=key)
        return
    name = model.serving_name
    unfit = []
    for up in own_servers():
        why = await _why_unfit(up, name)
        if not why:
            note(f"{name} is asked of the server at {up.url}.")
            yield up
            return
        unfit.append(why)
    lacking = await _find_lacking()
    if lacking:
        none_fits = " ".join(unfit) or "`precis model serve` runs none here."
        raise ConfigError(
            f"{name} is a LoRA adapter, which takes a server. None that is up has it: "
            f"{none_fits} None can be started here: {lacking}",
            f"Start one with `precis model serve {name} --run` on a machine with a GPU, then add "
            "--url with its address.",
        )
    async with _start_server(model, context_tokens, note) as started:
        yield started


async def choose_model(
    store: Store, name: str, fits: Callable[[NamedCheckpoint], bool], none: StoreError
) -> NamedCheckpoint:
    """Return the named model; without a name the best fitting one that this machine can use, else
    the best fitting one. Raises StoreError if none fits; the message is the first problem of an
    unreadable one, or `none`."""
    if name:
        return find_model(store, Reference.parse(name))
    unusable: list[NamedCheckpoint] = []
    problem: StoreError | None = None
    for reference in rank_models(store):
        try:
            found = find_model(store, reference)
        except StoreError as error:
            problem = problem or error
            continue
        if not fits(found):
            continue
        if found.kind == "policy" or not await _find_lacking():
            return found
        for up in own_servers():
            if not await _why_unfit(up, found.serving_name):
                return found
        unusable.append(found)
    if unusable:
        return unusable[0]
    raise problem or none


def server_at(url: str) -> Server:
    """Return the server at a user's address, which may end in a slash, with its key."""
    url = url.rstrip("/")
    if not url.startswith(("http://", "https://")):
        raise ConfigError("--url must start with http:// or https://.")
    own = next((up.key for up in own_servers() if up.url == url), None)
    return Server(url=url, key=own or key_of_server() or NO_KEY)


async def find_served(url: str, wanted: str, key: str) -> str:
    """Return a server's name of a model, which may be given without its step; without a name, the
    server's only model. Raises ConfigError if the server is not there, rejects the key, or has
    several models."""
    names = await list_models(url, key)
    if wanted and (names is None or wanted in names):
        return wanted
    if names is None:
        raise ConfigError(
            f"The server at {url} lists no models, as OpenAI's API does.",
            "See whether --url ends in /v1, or name the model with --model.",
        )
    fitting = names
    if wanted:
        fitting = [name for name in names if name.partition("@")[0] == wanted]
    if len(fitting) == 1:
        return fitting[0]
    asked = f"has no single model {wanted!r}" if wanted else "has not just one model"
    raise ConfigError(
        f"The server at {url} {asked}; there are: {describe_models(names)}.",
        "Name one with --model.",
    )


def describe_models(names: Sequence[str]) -> str:
    """Return the names for a message, or the first of many."""
    shown = ", ".join(names[:_NAMES_SHOWN]) or "none that it names"
    more = len(names) - _NAMES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


async def list_models(url: str, key: str, timeout_s: float = _LIST_TIMEOUT_S) -> list[str] | None:
    """Return the models that a server lists, or None if it sends no such list. Raises ConfigError
    if it does not answer, sends without end, or rejects the key."""
    headers = {"Authorization": f"Bearer {key}"}
    try:
        async with (
            asyncio.timeout(timeout_s),
            BoundedClient(url, key, bytes_max=_LIST_BYTES_MAX, timeout=timeout_s) as client,
        ):
            response = await client.get(f"{url}/models", headers=headers)
    except (TimeoutError, httpx.TimeoutException):
        raise ConfigError(
            f"The server at {url} does not list its models within {timeout_s:.0f} s.",
            "See whether it is up, or give another --url.",
        ) from None
    except ReplyTooLarge as error:
        raise ConfigError(
            f"The server at {url} lists its models without end: {error}", "Give another --url."
        ) from None
    except httpx.InvalidURL:  # what it says, and the address, may hold a password
        raise ConfigError("--url is not an address.", "Write http://HOST:PORT/v1.") from None
    except httpx.RequestError as error:
        raise ConfigError(
            f"No server answers at {url} ({error or type(error).__name__}).",
            "Start it with `precis model serve`, or give another --url, which ends in /v1.",
        ) from error
    if response.status_code in (401, 403):
        raise ConfigError(
            f"The server at {url} rejects the key.",
            f"Set {SERVER_KEY_VARIABLE} in the environment or in .env to one that it takes.",
        )
    if response.status_code != 200:
        return None
    try:
        return [model.id for model in _Models.model_validate_json(response.content).data]
    except ValidationError:
        return None


class _Model(BaseModel):
    id: str = Field(min_length=1, max_length=400, pattern=r"^[^\p{C}\p{Zl}\p{Zp}]*$")


class _Models(BaseModel):
    """The part of OpenAI's list of models that is read."""

    data: list[_Model]


async def _why_unfit(server: Server, name: str) -> str:
    """Return a sentence on why a server can't serve the model, or ""."""
    try:
        names = await list_models(server.url, server.key, _ANSWER_TIMEOUT_S)
    except ConfigError as error:
        return error.what[0].lower() + error.what[1:]
    if names is None:
        return f"what answers at {server.url} lists no models, as OpenAI's API does."
    if name not in names:
        return f"the server at {server.url} has {describe_models(names)}."
    return ""


async def _find_lacking() -> str:
    """Return a sentence on what is missing to start a server, or ""."""
    if shutil.which("vllm") is None:
        return "vLLM is not on PATH."
    try:
        await gpus_suffice(1)
    except ConfigError:  # its message is about a trainer's settings
        return "nvidia-smi finds no GPU that CUDA_VISIBLE_DEVICES leaves visible."
    return ""


@asynccontextmanager
async def _start_server(
    model: NamedCheckpoint, context_tokens: int | None, note: Callable[[str], None]
) -> AsyncIterator[Server]:
    """Run vLLM under a supervisor, which also ends vLLM's child processes."""
    name = model.serving_name
    address = ServerAddress("127.0.0.1", free_port())
    server = Server(url=address.url, key=secrets.token_urlsafe(32))
    adapter = await asyncio.to_thread(fetch_adapter, model)
    command = command_for_adapter(model, adapter, "", context_tokens, address)
    variables = {
        VLLM_KEY_VARIABLE: server.key,
        # The user's current folder may have modules of any name.
        "PYTHONSAFEPATH": "1",
    }
    log = private_home() / "vllm.log"
    note(f"vLLM is started to serve {name}, which takes a minute or so; its log is {log}.")
    async with run_child([*SUPERVISE, *command], log, variables) as child:
        try:
            async with asyncio.timeout(_START_TIMEOUT_S):
                while await _why_unfit(server, name):
                    if child.process.returncode is not None:
                        raise ModelError(_describe_failure(child, name, "ended before it was up"))
                    await asyncio.sleep(_POLL_S)
        except TimeoutError as error:
            late = f"was not up after {_START_TIMEOUT_S / 60:.0f} minutes"
            raise ModelError(_describe_failure(child, name, late)) from error
        yield server


def _describe_failure(child: Child, name: str, what: str) -> str:
    cause = cause_in(child.output()).rstrip(".")
    return f"The server of {name} {what}: {cause}. All that it printed is in {child.log}."
