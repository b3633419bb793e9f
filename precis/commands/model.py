"""`precis model`: a trained model to export, serve and publish."""

from __future__ import annotations

import os
import re
import secrets
import shlex
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from precis.commands.terminal import StoreOption, echo, note, sentences, warn
from precis.errors import ConfigError, ModelError

# The shell's completion imports this module at every Tab, so a command does its own imports.
if TYPE_CHECKING:
    from precis.models.reference import NamedCheckpoint
    from precis.models.serving import ServerAddress

app = typer.Typer(no_args_is_help=True, help="Trained models: to export, serve and publish.")

_KEPT_MIN = 0.9
"""Merging warns if less than this share of an adapter's product remains."""
_HOST = "127.0.0.1"

Name = Annotated[str, typer.Argument(help="Name of the model: NAME, NAME@STEP or NAME@best.")]
Step = Annotated[
    str,
    typer.Option(
        help="`best` or a step; by default the newest, or the best of a run that stopped early."
    ),
]
Base = Annotated[
    str, typer.Option(help="Base model: a folder, or a name on the Hub that is in the cache here.")
]


@app.command()
def export(
    name: Name,
    to: Annotated[Path, typer.Option(help="Folder to write; not there yet, or empty.")],
    step: Step = "",
    file_format: Annotated[
        Literal["adapter", "merged", "gguf"], typer.Option("--format", help="What to write.")
    ] = "adapter",
    base: Base = "",
    dtype: Annotated[
        Literal["base", "float32"], typer.Option(help="Of merged weights: the base's, or 32 bits.")
    ] = "base",
    converter: Annotated[
        Path | None, typer.Option(help="llama.cpp's convert_hf_to_gguf.py; else from PATH.")
    ] = None,
    store: StoreOption = "",
) -> None:
    """Write a checkpoint to a folder: adapter, merged weights or GGUF, with its prompt."""
    from precis.models.export import export_model

    with sentences():
        found = _find(name, step, store)
        try:
            to = to.expanduser().absolute()
        except RuntimeError as error:
            raise ConfigError(
                f"{to} lies in the home of a user who is not there.",
                "Write ~/… for your own, or the whole path.",
            ) from error
        proof = export_model(found, to, file_format, base, dtype, converter)
        echo(f"{found.serving_name} is in {to}.")
        if proof is not None:
            echo(
                f"Verified: {proof.merged} tensors are base + adapter, to the nearest number of "
                f"their type, and {proof.equal} are the base's own."
            )
            if proof.kept is None:
                warn("The adapter adds nothing yet: these weights are the base model's.")
            elif proof.kept < _KEPT_MIN:
                warn(
                    f"Only {proof.kept:.0%} of what the adapter adds is left in 16 bits, since it "
                    "is small beside the base's weights: take --dtype float32, or serve the "
                    "adapter itself."
                )


@app.command()
def serve(
    name: Annotated[
        str, typer.Argument(help="NAME, NAME@STEP or NAME@best, or a folder of merged weights.")
    ],
    run: Annotated[bool, typer.Option("--run", help="Start it, here and now.")] = False,
    base: Base = "",
    host: Annotated[str, typer.Option(help="Address to listen at.")] = _HOST,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen at.")] = 8000,
    context: Annotated[
        int | None, typer.Option(min=512, help="Tokens to read at once; as in training.")
    ] = None,
    store: StoreOption = "",
) -> None:
    """Print how to serve a model, or serve it: a language model by vLLM, the embedded policy
    directly."""
    from precis.models import serving
    from precis.models.prompt import prompt_in
    from precis.processes.signals import as_interrupts

    address = serving.ServerAddress(host or _HOST, port)  # a server at "" listens everywhere
    with sentences():
        folder = Path(os.path.expanduser(name))
        if serving.is_merged(folder):
            served = serving.name_of(folder)
            command = serving.command_for_merged(
                served, folder, context or serving.CONTEXT_TOKENS, address
            )
            is_agent = "tool_call_parser" in prompt_in(folder)
            return _vllm(command, served, address, run, is_agent)
        found = _find(name, "", store)
        if found.kind == "policy":
            if not run:
                where = ["--host", address.host, "--port", str(address.port)]
                if store:
                    where += ["--store", store]
                echo(shlex.join(["precis", "model", "serve", found.serving_name, "--run", *where]))
                note(f"{found.serving_name} is the embedded policy: this command serves it.")
                return
            serving.check_address(address)  # before a key is shown
            key = _find_or_show_key()
            _say_how_to_ask(found.serving_name, address, found.is_agent)
            with TemporaryDirectory() as policy, as_interrupts():
                serving.serve_policy(found, Path(policy), address, key)
            return
        adapter = serving.fetch_adapter(found, base)
        command = serving.command_for_adapter(found, adapter, base, context, address)
        _vllm(command, found.serving_name, address, run, found.is_agent)


@app.command()
def push(
    name: Name,
    repo: Annotated[str, typer.Option(help="Repository on the Hub: OWNER/NAME.")],
    private: Annotated[bool, typer.Option("--private", help="Make it private.")] = False,
    step: Step = "",
    base: Base = "",
    store: StoreOption = "",
) -> None:
    """Publish an adapter on the Hub (HF_TOKEN), with a card made from its benchmark."""
    from precis.environment import Variables
    from precis.llm.providers import sendable
    from precis.models.adapter import name_base
    from precis.models.base import HUB_NAME
    from precis.models.card import base_of, card_of, newest_benchmark
    from precis.models.export import export_model

    with sentences():
        if not HUB_NAME.fullmatch(repo):
            raise ConfigError(f"--repo {repo!r} names no repository.", "Write OWNER/NAME.")
        secret = Variables().hf_token
        if secret is None:
            raise ConfigError(
                "HF_TOKEN is not set.",
                "Make a token with write access on huggingface.co; export it, or set it in .env.",
            )
        token = sendable(secret.get_secret_value(), "HF_TOKEN")
        found = _find(name, step, store)
        benchmarked = newest_benchmark(found)
        with TemporaryDirectory() as temporary:
            folder = Path(temporary) / repo.rpartition("/")[2]
            export_model(found, folder, "adapter", base)
            known_as = base_of(found)
            if known_as:
                name_base(folder, known_as)
            card = card_of(found, known_as, repo, benchmarked)
            (folder / "README.md").write_text(card, encoding="utf-8")
            message = f"{found.serving_name}, by Précis"
            echo(_push_folder(folder, repo, token, private, message))
        if benchmarked is None:
            warn(f"{found.serving_name} was in no benchmark: its card says so.")


def _push_folder(folder: Path, repo: str, token: str, private: bool, message: str) -> str:
    """Upload a folder to a model's repository, created if missing; return the commit's address.

    `private` makes it private first. Raises ModelError if the Hub refuses or does not answer.
    """
    import httpx
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError
    from huggingface_hub.utils.tqdm import disable_progress_bars

    from precis.llm.redaction import Redactor

    disable_progress_bars()
    api = HfApi(endpoint=os.environ.get("HF_ENDPOINT") or None, token=token)
    try:
        # Without --private the owner's default applies.
        api.create_repo(repo, private=private or None, exist_ok=True)
        if private:  # it may have been there, and public
            api.update_repo_settings(repo, private=True)
        commit = api.upload_folder(repo_id=repo, folder_path=folder, commit_message=message)
    except HfHubHTTPError as error:
        status = error.response.status_code
        if status in (401, 403):
            raise ModelError(
                f"The Hub refuses to write to {repo} ({status}): HF_TOKEN must be a valid token "
                "with write access to that owner's repositories."
            ) from error
        said = Redactor(token).clean_text(error.server_message or str(error))
        detail = " ".join(said.split())[:300]
        raise ModelError(f"The Hub did not take {repo} ({status}: {detail}).") from error
    except ValueError as error:  # raised for the card's metadata, or for a file's announcement
        said = Redactor(token).clean_text(" ".join(str(error).split()))
        raise ModelError(f"The Hub did not take {repo}: {said}") from error
    except RuntimeError as error:  # raised for a large file's upload, with the cause inside
        said = Redactor(token).clean_text(str(error))
        raise ModelError(said, "Push again: what is there already is not sent twice.") from error
    except (httpx.TransportError, OSError) as error:
        raise ModelError(
            f"The Hub at {api.endpoint} does not answer ({error or type(error).__name__}).",
            "Push again once it can be reached: what is there already is not sent twice.",
        ) from error
    return str(commit.commit_url)


def _vllm(command: list[str], name: str, address: ServerAddress, run: bool, is_agent: bool) -> None:
    from precis.models.serving import check_vllm, run_vllm

    # To copy into a terminal: an option a line.
    echo(re.sub(r" (?=--)", " \\\n    ", shlex.join(command)))
    key = ""
    if run:
        check_vllm(address)  # before a key is shown
        key = _find_or_show_key()
    _say_how_to_ask(name, address, is_agent)
    if run:
        raise typer.Exit(run_vllm(command, key, address))
    note("It asks for the key in VLLM_API_KEY; --run sets that to PRECIS_API_KEY.")


def _find_or_show_key() -> str:
    """Return the server's key; a newly made one is printed once, to the user who starts the
    server."""
    from precis.llm.providers import key_of_server

    key = key_of_server()
    if key is None:
        key = secrets.token_urlsafe(32)
        note(f"PRECIS_API_KEY is not set. The key of this server: {key}")
    return key


def _say_how_to_ask(name: str, address: ServerAddress, is_agent: bool) -> None:
    command = "play AGENT.py" if is_agent else "summarize FILE"
    note(f"Then: precis {command} --url {address.url} --model {name}")


def _find(name: str, step: str, store: str) -> NamedCheckpoint:
    from precis.environment import Variables
    from precis.models.reference import Reference, find_model
    from precis.store import open_store

    if step and "@" in name:
        raise ConfigError(f"{name!r} names a step already: leave out --step.")
    reference = Reference.parse(f"{name}@{step}" if step else name)
    return find_model(open_store(store or Variables().store), reference)
