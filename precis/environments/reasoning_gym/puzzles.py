"""reasoning-gym's puzzles, made and scored in a separate process.

Some of its generators evaluate an answer, which is a model's text, as Python to score it
(`precis.environments.isolated`).
"""

import inspect
import json
from functools import lru_cache
from typing import Any

import reasoning_gym
from reasoning_gym.factory import DATASETS
from reasoning_gym.utils import extract_answer as extract_answer  # called like those below

_MADE_OF_OTHERS = "composite"


def datasets() -> list[str]:
    return sorted(name for name in DATASETS if name != _MADE_OF_OTHERS)


def questions(name: str, given: dict[str, Any], seed: int, first: int, count: int) -> list[str]:
    """Return `count` of a generator's questions, from `first` on."""
    places = range(first, first + count)
    return [_puzzle(name, json.dumps(given), seed, place)["question"] for place in places]


def answer(name: str, given: dict[str, Any], seed: int, place: int) -> str | None:
    known = _puzzle(name, json.dumps(given), seed, place)["answer"]
    return None if known is None else str(known)


def score(name: str, given: dict[str, Any], seed: int, place: int, said: str | None) -> float:
    """Return the generator's score of an answer, from 0 to 1."""
    key = json.dumps(given)
    return float(_dataset(name, key, seed).score_answer(said, _puzzle(name, key, seed, place)))


@lru_cache(maxsize=4)
def _dataset(name: str, key: str, seed: int) -> Any:
    try:
        return reasoning_gym.create_dataset(name, seed=seed, **json.loads(key))
    except TypeError as error:
        known = inspect.signature(DATASETS[name][1])
        raise TypeError(f"{error}; its parameters are {known}") from error


@lru_cache(maxsize=4096)
def _puzzle(name: str, key: str, seed: int, place: int) -> Any:
    return _dataset(name, key, seed)[place]
