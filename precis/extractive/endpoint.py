"""The policy as a model behind `/v1/chat/completions`: `name@step`, or `name` for the latest."""

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import numpy as np

from precis.errors import PrecisError, RolloutError
from precis.extractive.checkpoint_files import folder_of, load, steps
from precis.extractive.features import Features, featurize
from precis.extractive.policy import TOKEN_PREFIX, Policy, logprobs, pick, summary
from precis.llm.server import ApiError, ChatRequest, Choice, Completion
from precis.summaries.prompt import SummaryRequest, request_in


class PolicyEndpoint:
    """Answers completions from the checkpoints of the models in `folders`.

    Args:
        folders: model folders by model name; may grow while serving.
    """

    def __init__(self, folders: Mapping[str, Path]) -> None:
        self._folders = folders

    def models(self) -> list[str]:
        """Every name that can be asked for by step."""
        names: list[str] = []
        for name, folder in self._folders.items():
            names.extend(f"{name}@{step}" for step in steps(folder))
        return names

    async def complete(self, asked: ChatRequest) -> Completion:
        """Answer a request.

        Raises:
            ApiError: 404 for an unknown model or step, 400 where there is no document.
        """
        name, step = self._resolve(asked.model)
        policy = self._policy(name, step)
        try:
            request = request_in(asked.messages)
        except RolloutError as error:
            raise ApiError(400, str(error), "no_document") from error
        generator = np.random.default_rng(_entropy(asked.seed))
        choices = [_choice(policy, request, asked, generator) for _ in range(asked.n)]
        # A sentence is a token here; the document before it is none.
        ids: list[int] | None = [] if asked.return_token_ids else None
        return Completion(f"{name}@{step}", choices, prompt_ids=ids)

    def _resolve(self, model: str) -> tuple[str, int]:
        name, _, wanted = model.partition("@")
        folder = self._folders.get(name)
        if folder is None:
            raise _not_found(model)
        if wanted.isdecimal():
            return name, int(wanted)
        saved = steps(folder)
        if model != name or not saved:
            raise _not_found(model)
        return name, saved[-1]

    def _policy(self, name: str, step: int) -> Policy:
        folder = self._folders[name]
        try:
            # A step that was taken back and trained again stands in another folder.
            status = folder_of(folder, step).stat()
        except OSError as error:
            raise _not_found(f"{name}@{step}") from error
        try:
            return _load(folder, step, status.st_ino, status.st_mtime_ns)
        except PrecisError as error:
            raise ApiError(500, str(error), "corrupt_checkpoint") from error


@lru_cache(maxsize=8)
def _load(folder: Path, step: int, _inode: int, _changed_ns: int) -> Policy:
    return load(folder, step).policy


def _not_found(model: str) -> ApiError:
    return ApiError(404, f"The model `{model}` does not exist here.", "model_not_found")


def _entropy(seed: int | None) -> int | None:
    """Seeds may be any integer; numpy wants none below zero."""
    if seed is None:
        return None
    return int.from_bytes(hashlib.blake2b(str(seed).encode(), digest_size=16).digest())


def _choice(
    policy: Policy, request: SummaryRequest, asked: ChatRequest, generator: np.random.Generator
) -> Choice:
    features = featurize(request.text)
    picks = pick(policy, features, request.words_max, asked.temperature, generator)
    kept = _within(picks, features, asked.max_completion_tokens or asked.max_tokens)
    entries = None
    if asked.logprobs:
        entries = []
        values = logprobs(policy, features, kept, request.words_max).tolist()
        for index, value in zip(kept, values, strict=True):
            token = f"{TOKEN_PREFIX}{index}"
            entries.append({"token": token, "logprob": value, "bytes": None, "top_logprobs": []})
    cut = "length" if len(kept) < len(picks) else "stop"
    words = int(features.words[list(kept)].sum())
    ids = list(kept) if asked.return_token_ids else None
    return Choice(summary(features, kept), cut, entries, words, token_ids=ids)


def _within(picks: tuple[int, ...], features: Features, words: int | None) -> tuple[int, ...]:
    """The first picks that fit a completion's limit, a word being a token."""
    if words is None:
        return picks
    spent = np.cumsum(features.words[list(picks)])
    return picks[: int(np.searchsorted(spent, words, side="right"))]
