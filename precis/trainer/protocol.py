"""The messages between trainer and client: trajectories, digests and events.

Every operation but the download of a file answers with one JSON object a line: any number of
`heartbeat` events, then one `result` or `error`.
"""

import math
import os
from collections.abc import Iterable
from typing import Any, Literal

import art
from art.trajectories import History
from art.types import MessagesAndChoices
from openai.types.chat.chat_completion import Choice
from pydantic import Field

from precis.errors import RolloutError
from precis.record import BaseModelName, Name, Record, Step, json_digest
from precis.records.ledger import StepRecord
from precis.records.manifests import File, FilePath

HEARTBEAT_S = 2.0
_DECIDING = ("messages_and_choices", "tools", "additional_histories", "reward")
"""The fields of a trajectory that decide what is learned from it."""
_PROMPT = "prompt_token_ids"

Json = dict[str, Any]


class ModelSpec(Record):
    """The model to work on, as `art.TrainableModel` takes it."""

    name: Name
    project: Name
    base_model: BaseModelName
    internal_config: Json | None = None


class TrainRequest(Record):
    """Train step `step`, which turns adapter `step` into adapter `step + 1`."""

    model: ModelSpec
    run: str
    """The run that asks; a trainer that holds another run's checkpoints refuses. Empty: any."""
    step: Step
    digest: str
    groups: list[Json]
    imitates: bool
    """True for supervised training: each trajectory ends in a message to imitate."""
    options: dict[str, Any]
    note: Json
    """Kept with the result, for a run that is resumed."""


class StoredModel(Record):
    """The place of a model's checkpoints, and the name in which they are committed."""

    store: str
    """URL of the store."""
    name: Name
    """The model's name in the store."""
    config: str = ""
    """Digest of the run's settings, for a commit."""
    run: str = ""
    """The run that commits, or that owns the model from here on after a restore."""
    lease: str = ""
    """Id of the lease that a commit needs; empty if no other run can write."""


class CheckpointRequest(StoredModel):
    """Commit, fetch or restore the checkpoint of a step."""

    model: ModelSpec
    step: Step
    record: StepRecord | None = None
    """The ledger's record of the step, for a commit."""
    digest: str = ""
    """The digest that a checkpoint to fetch or restore must have; empty takes any."""


class FileRequest(Record):
    """Send a file of a checkpoint that is here."""

    model: ModelSpec
    step: Step
    path: FilePath


class TrainedStep(Record):
    """A step that was trained: the digest of its groups, the result, and the request's note."""

    digest: str
    result: Json
    note: Json


class TrainerState(Record):
    """The state of a model in a trainer."""

    run: str = ""
    """The run that it is of; empty if the model is not here."""
    checkpoints: dict[Step, tuple[File, ...]] = Field(default_factory=dict)
    """The files of each whole checkpoint, by step."""
    trained: dict[Step, TrainedStep] = Field(default_factory=dict)
    """The record of each step that made one of them."""


class Event(Record):
    """One line of an operation's answer."""

    event: Literal["heartbeat", "result", "error"]
    data: Json = Field(default_factory=dict)


def encode_groups(groups: Iterable[art.TrajectoryGroup]) -> list[Json]:
    """Return groups as JSON. Raises RolloutError for a reward that is not a finite number, which
    JSON can't carry."""
    encoded = []
    for group in groups:
        codec = _Codec()
        plain = group.model_dump(mode="json", exclude={"exceptions", "trajectories"})
        plain["trajectories"] = [codec.encode(one) for one in group.trajectories]
        encoded.append(plain)
    return encoded


def decode_groups(encoded: Iterable[Json]) -> list[art.TrajectoryGroup]:
    """Return the inverse of `encode_groups`: exceptions and start times aside.

    ART's own validation turns every Choice into a plain message and so loses the log
    probabilities that training needs; here each is built as what it was.
    """
    groups = []
    for group in encoded:
        codec = _Codec()
        trajectories = [codec.decode(one) for one in group["trajectories"]]
        groups.append(
            art.TrajectoryGroup(
                trajectories,
                metadata=group["metadata"],
                metrics=group["metrics"],
                logs=group["logs"],
            )
        )
    return groups


def digest_of(encoded: Iterable[Json]) -> str:
    """SHA-256 of what decides the training: messages, choices, tools and rewards, no timings."""
    essence = []
    for group in encoded:
        trajectories = []
        for one in group["trajectories"]:
            trajectories.append([one[name] for name in _DECIDING])
        essence.append(trajectories)
    return json_digest(essence)


class _Codec:
    """Writes and reads the trajectories of one group, in their order.

    An answer carries its tokens, and all those of its prompt (`precis.records.samples`), which
    repeats what was said before. So each prompt is written as what it adds to the sequence before
    it, and the first of a trajectory to the group's first.
    """

    def __init__(self) -> None:
        self._first: list[int] = []
        self._before: list[int] = []

    def encode(self, trajectory: art.Trajectory) -> Json:
        if not math.isfinite(trajectory.reward):
            raise RolloutError(
                f"A trajectory's reward is {trajectory.reward}: leave the rollout out of its group "
                "instead."
            )
        self._before = self._first
        excluded = {"messages_and_choices", "additional_histories"}
        encoded = trajectory.model_dump(mode="json", exclude=excluded)
        encoded["messages_and_choices"] = self._encode_items(trajectory.messages_and_choices)
        encoded["additional_histories"] = []
        for history in trajectory.additional_histories:
            plain = history.model_dump(mode="json", exclude={"messages_and_choices"})
            plain["messages_and_choices"] = self._encode_items(history.messages_and_choices)
            encoded["additional_histories"].append(plain)
        return encoded

    def decode(self, encoded: Json) -> art.Trajectory:
        self._before = self._first
        plain = {**encoded, "messages_and_choices": [], "additional_histories": []}
        trajectory = art.Trajectory.model_validate(plain)
        trajectory.messages_and_choices = self._decode_items(encoded["messages_and_choices"])
        for history in encoded["additional_histories"]:
            restored = History(messages_and_choices=[], tools=history["tools"])
            restored.messages_and_choices = self._decode_items(history["messages_and_choices"])
            trajectory.additional_histories.append(restored)
        return trajectory

    def _encode_items(self, items: MessagesAndChoices) -> list[Json]:
        encoded: list[Any] = []
        for item in items:
            if not isinstance(item, Choice):
                encoded.append(item)
                continue
            plain = item.model_dump(mode="json")
            prompt = plain.get(_PROMPT)
            if prompt is not None:
                both = [prompt, self._before]
                shared = len(os.path.commonprefix(both))  # noqa: RUF071 (of tokens, not of paths)
                plain[_PROMPT] = [shared, prompt[shared:]]
            encoded.append(plain)
            self._continue_after(item)
        return encoded

    def _decode_items(self, items: Iterable[Json]) -> MessagesAndChoices:
        decoded: list[Any] = []
        for item in items:
            if "role" in item:  # an agent's message may have a choice's fields, too
                decoded.append(item)
                continue
            whole = dict(item)
            if item.get(_PROMPT) is not None:
                shared, rest = item[_PROMPT]
                if shared > len(self._before):
                    raise ValueError(f"A prompt repeats {shared} tokens of {len(self._before)}.")
                whole[_PROMPT] = [*self._before[:shared], *rest]
            choice = Choice.model_validate(whole)
            decoded.append(choice)
            self._continue_after(choice)
        return decoded

    def _continue_after(self, choice: Choice) -> None:
        carried = choice.model_extra or {}
        self._before = [*(carried.get(_PROMPT) or ()), *(carried.get("token_ids") or ())]
        self._first = self._first or self._before
