"""Serving of a trained model: vLLM for a language model, our own server for the policy."""

import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from precis.environment import private_home
from precis.errors import ConfigError, CorruptCheckpoint
from precis.llm.server import completions_app
from precis.models.adapter import claimed_base, rank_of
from precis.models.base import base_config, base_to_load
from precis.models.export import VERIFICATION_FILE, export_model
from precis.models.own_servers import Server, announced
from precis.models.prompt import PROMPT_FILE, options_of, prompt_in
from precis.models.reference import NamedCheckpoint
from precis.processes.file_lock import file_lock
from precis.processes.signals import passed_on
from precis.processes.supervisor import SUPERVISE
from precis.rehearsal.checkpoint_files import POLICY_FILE
from precis.rehearsal.endpoint import PolicyEndpoint
from precis.rehearsal.extractive.kind import SENTENCES
from precis.rehearsal.kind import PolicyKind
from precis.rehearsal.tool_calls.kind import TOOL_CALLS
from precis.runs.local_checkpoints import folder_of
from precis.settings.trainer import VLLM_RANKS

CONTEXT_TOKENS = 4096
"""The default context of a server in tokens, the summary included."""

VLLM_KEY_VARIABLE = "VLLM_API_KEY"
"""The variable from which vLLM reads its key."""

_POLICIES: dict[str, PolicyKind] = {one.layout.kind: one for one in (SENTENCES, TOOL_CALLS)}
_DOWNLOAD_S = 600.0
"""The longest wait for another command's download of an adapter."""


@dataclass(frozen=True)
class ServerAddress:
    """The host and port of a server."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """The URL for `--url` of `precis summarize`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/v1"


def fetch_adapter(model: NamedCheckpoint, base: str = "") -> Path:
    """Download an adapter's files, with the prompt, unless they are here; return their folder.

    The base is the user's, or else the run's. Raises ConfigError as `choose_base` does.
    """
    # A run that was reset and trained the step again has other files under the same name.
    files = "".join(file.sha256 for file in model.checkpoint.files)
    digest = hashlib.sha256(f"{files}{base}".encode()).hexdigest()[:8]
    copies = _copies_folder()
    folder = copies / f"{model.name}-{model.step}-{digest}"
    copies.mkdir(exist_ok=True)
    with file_lock(copies / ".lock", _DOWNLOAD_S):  # another command may want the same
        if not (folder / PROMPT_FILE).exists():
            shutil.rmtree(folder, ignore_errors=True)
            export_model(model, folder, "adapter", base=base)
    return folder


def delete_adapter_copies(model: str) -> None:
    """Delete the downloads of `fetch_adapter` for a model."""
    # The full name: another model's name may begin with this one's.
    name = re.compile(rf"{re.escape(model)}-\d+-[0-9a-f]{{8}}")
    for folder in _copies_folder().glob("*"):
        if name.fullmatch(folder.name):
            shutil.rmtree(folder, ignore_errors=True)


def _copies_folder() -> Path:
    # Absolute: the command may be copied into a terminal in another folder.
    return private_home().absolute() / "models"


def command_for_adapter(
    model: NamedCheckpoint,
    folder: Path,
    base: str,
    context_tokens: int | None,
    address: ServerAddress,
) -> list[str]:
    """Return vLLM's command for an adapter in a folder beside its base.

    Empty base or context means the run's. Raises ConfigError if the base has to be named, or vLLM
    does not support the rank.
    """
    loaded = base_to_load(base, model.recorded_base, claimed_base(folder))
    rank = rank_of(folder)
    fitting = [each for each in VLLM_RANKS if each >= rank]
    if not fitting:
        raise ConfigError(
            f"vLLM serves no adapter of rank {rank}.",
            "Export it with --format merged, and serve that folder.",
        )
    adapter = ["--enable-lora", "--max-lora-rank", str(fitting[0])]
    modules = ["--lora-modules", f"{model.serving_name}={folder}"]
    trained_with = model.record.tokens_max if model.record else None
    context_tokens = context_tokens or trained_with or CONTEXT_TOKENS
    options = options_of(prompt_in(folder))
    return [*_vllm(loaded, context_tokens, address), *adapter, *modules, *options]


def command_for_merged(
    name: str, folder: Path, context_tokens: int, address: ServerAddress
) -> list[str]:
    """Return vLLM's command for merged weights in a folder. Raises ConfigError if it has no
    model."""
    served = ["--served-model-name", name, *options_of(prompt_in(folder))]
    command = [*_vllm(str(folder), context_tokens, address), *served]
    config = base_config(folder)
    if "float32" not in (config.get("dtype"), config.get("torch_dtype")):
        return command
    # By default it would round 32 bits to 16, and lose the adapter's precision.
    return [*command, "--dtype", "float32"]


def is_merged(folder: Path) -> bool:
    """Return whether a folder was written by `precis model export --format merged`."""
    files = (folder / "config.json", folder / PROMPT_FILE)
    return all(map(os.path.exists, files))  # unlike Path's, False where one can't be looked at


def name_of(folder: Path) -> str:
    """Return the served name of an exported folder: that of its checkpoint."""
    try:
        known = json.loads((folder / VERIFICATION_FILE).read_text(encoding="utf-8"))
        return str(known["model"])
    except (OSError, ValueError, KeyError, TypeError):
        return folder.resolve().name


def check_vllm(address: ServerAddress) -> None:
    """Raise ConfigError if vLLM is not installed, or the address is taken."""
    if shutil.which("vllm") is None:
        raise ConfigError(
            "vLLM is not on PATH.",
            "Install it on a machine with a GPU (`pip install vllm`), or leave out --run and copy "
            "the command there.",
        )
    check_address(address)  # else documents would go to another process that listens there


def check_address(address: ServerAddress) -> None:
    """Raise a ConfigError if no server can listen there."""
    _listener(address).close()


def run_vllm(command: Sequence[str], key: str, address: ServerAddress) -> int:
    """Run vLLM, which is installed, until it ends or is stopped; return its exit status.

    Its key is not on the command line, this user's other commands find it, and it ends with this
    process.
    """
    # The user's current folder may have modules of any name.
    environment = {**os.environ, VLLM_KEY_VARIABLE: key, "PYTHONSAFEPATH": "1"}
    with announced(Server(url=address.url, key=key)) as lock:
        server = subprocess.Popen(
            [*SUPERVISE, *command],
            stdin=subprocess.PIPE,
            env=environment,
            pass_fds=[lock],
            start_new_session=True,  # Ctrl-C goes to us only, and we pass it on once
        )
        with passed_on(server):
            return server.wait()


def fetch_policy(model: NamedCheckpoint, folder: Path) -> PolicyEndpoint:
    """Download the embedded policy to a folder, and return what answers with it."""
    file = model.fetch(folder_of(folder, model.step)) / POLICY_FILE
    try:
        kind = _POLICIES[json.loads(file.read_text(encoding="utf-8"))["policy"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        known = " or ".join(_POLICIES)
        raise CorruptCheckpoint(f"{file} holds no policy of the kind {known}.") from error
    return PolicyEndpoint(kind, {model.name: folder})


def serve_policy(model: NamedCheckpoint, folder: Path, address: ServerAddress, key: str) -> None:
    """Serve the embedded policy until stopped; this user's other commands find it."""
    endpoint = fetch_policy(model, folder)
    app = completions_app(endpoint.complete, endpoint.models, key)
    config = uvicorn.Config(app, log_level="warning", access_log=False, ws="none")
    listener = _listener(address)
    with announced(Server(url=address.url, key=key)):
        uvicorn.Server(config).run(sockets=[listener])


def _vllm(model: str, context_tokens: int, address: ServerAddress) -> list[str]:
    where = ["--host", address.host, "--port", str(address.port)]
    # By default it would sample by the base's own file, with a penalty that training had not.
    sampling = ["--generation-config", "vllm"]
    return ["vllm", "serve", model, "--max-model-len", str(context_tokens), *sampling, *where]


def _listener(address: ServerAddress) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        listener = socket.create_server((address.host, address.port), family=family)
    except OSError as error:
        raise ConfigError(
            f"Can't listen at {address.host}:{address.port} ({error.strerror}).",
            "Choose another --port, or --host.",
        ) from error
    # Without this each small answer waits 40 ms for the peer's acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
