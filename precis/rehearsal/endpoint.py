"""The policy as a model behind `/v1/chat/completions`: `name@step`, or `name` for the latest."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from precis.errors import PrecisError
from precis.llm.server import ApiError, ChatRequest, Completion
from precis.records.rollout import parsed_calls
from precis.rehearsal.checkpoint_files import load
from precis.rehearsal.kind import Layout, LinearPolicy, PolicyKind
from precis.runs.local_checkpoints import folder_of, steps_here


class PolicyEndpoint:
    """Answers completions from checkpoints in model folders, to which steps may be added
    meanwhile."""

    def __init__(self, kind: PolicyKind, folders: Mapping[str, Path]) -> None:
        self._kind = kind
        self._folders = folders

    def models(self) -> list[str]:
        """Return the name of every step."""
        names: list[str] = []
        for name, folder in self._folders.items():
            for step in steps_here(folder):
                names.append(f"{name}@{step}")
        return names

    async def complete(self, asked: ChatRequest) -> Completion:
        """Answer a request. Raises ApiError: 404 for an unknown model or step, 400 without
        candidates."""
        name, is_step, wanted = asked.model.partition("@")
        try:
            folder = self._folders[name]
            step = int(wanted) if is_step else steps_here(folder)[-1]
            # A step that was reset and trained again has another folder.
            status = folder_of(folder, step).stat()
        except (LookupError, OSError, ValueError) as error:
            message = f"The model `{asked.model}` does not exist here."
            raise ApiError(404, message, "model_not_found") from error
        try:
            policy = _load(folder, step, self._kind.layout, status.st_ino, status.st_mtime_ns)
        except PrecisError as error:
            raise ApiError(500, str(error), "corrupt_checkpoint") from error
        choices = self._kind.answer(policy, asked)
        ids = prompt_ids(asked.messages, asked.tools) if asked.return_token_ids else None
        return Completion(f"{name}@{step}", choices, prompt_ids=ids)


@lru_cache(maxsize=8)
def _load(folder: Path, step: int, layout: Layout, _inode: int, _changed_ns: int) -> LinearPolicy:
    return load(folder, step, layout).policy


def generator_of(asked: ChatRequest) -> np.random.Generator:
    """Return the random generator of a request. Its seed may be any integer, unlike numpy's."""
    if asked.seed is None:
        return np.random.default_rng()
    digest = hashlib.blake2b(str(asked.seed).encode(), digest_size=16).digest()
    return np.random.default_rng(int.from_bytes(digest))


def logprob_entries(tokens: Sequence[int], logprobs: Sequence[float]) -> list[dict[str, Any]]:
    """Return OpenAI's `logprobs.content`, with tokens named by id as in vLLM."""
    entries: list[dict[str, Any]] = []
    for token, value in zip(tokens, logprobs, strict=True):
        name = f"token_id:{token}"
        entries.append({"token": name, "logprob": value, "bytes": None, "top_logprobs": []})
    return entries


def prompt_ids(messages: Sequence[Mapping[str, Any]], tools: Sequence[Any] | None) -> list[int]:
    """Return a prompt as tokens: one for the tools, if any, and one a message."""
    ids = [token_of({"tools": tools})] if tools else []
    return ids + [message_id(message) for message in messages]


def message_id(message: Mapping[str, Any]) -> int:
    """Return the token of a message, independent of what clients change in its tool calls: ids,
    the spaces in arguments, further fields."""
    calls = []
    for name, arguments in parsed_calls(message):
        calls.append({"name": name, "arguments": json.dumps(arguments)})
    if calls:
        return token_of({"calls": calls})
    return token_of({"role": message.get("role"), "content": message.get("content")})


def token_of(value: Mapping[str, Any]) -> int:
    """Return the token of a JSON value: 31 bits of its hash."""
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
    return int.from_bytes(hashlib.blake2b(canonical, digest_size=4).digest()) >> 1
