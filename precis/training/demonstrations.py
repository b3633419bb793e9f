"""Demonstrations of a warm start: kept in the store as they are collected, then trained on."""

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Any

import art
from art.trajectories import History
from art.utils.sft import create_lr_schedule
from pydantic import Field, ValidationError

from precis.config import TrainConfig
from precis.errors import ConfigError, StoreError
from precis.record import Amount, Record
from precis.records.demonstrations import Demonstration, ShownConversation
from precis.records.rollout import Scenario
from precis.records.samples import Sampled, with_tokens
from precis.records.warm_start import WarmStartRecord
from precis.store import Store
from precis.store.protocol import OwnObject

_WARMUP_SHARE = 0.1
"""The share of the updates over which the learning rate rises, as in ART."""


class Collected(Record):
    """The kept results of a warm start under way."""

    identity: str
    """Digest of the run's settings; demonstrations of other settings are not this run's."""
    demonstrations: tuple[Demonstration, ...] = Field(())
    usd: Amount = 0.0
    """The cost of collecting them."""


class DemonstrationJournal:
    """The demonstrations of a run, in the order in which they were collected.

    Each batch is in the store before the next begins, so that a killed run asks and pays for
    nothing again. A run that has lost the lease can't write any more.
    """

    def __init__(self, store: Store, model: str, identity: str) -> None:
        key = f"{model}/warm-start.json"
        blob = store.get(key)
        self._stored = OwnObject(store, key, blob.version if blob else None)
        self._collected = Collected(identity=identity)
        if blob is not None:
            try:
                before = Collected.model_validate_json(blob.data)
            except ValidationError as error:
                raise StoreError(
                    f"{store.url}/{key} can't be read as the demonstrations of a warm start.",
                    "Delete it: they are collected anew.",
                ) from error
            if before.identity == identity:
                self._collected = before

    @property
    def all(self) -> tuple[Demonstration, ...]:
        """All collected demonstrations."""
        return self._collected.demonstrations

    @property
    def usd(self) -> float:
        """The cost of the demonstrations."""
        return self._collected.usd

    def missing(self, scenarios: Sequence[Scenario]) -> list[Scenario]:
        """Return the scenarios without demonstrations."""
        known = {one.scenario_id for one in self.all}
        return [scenario for scenario in scenarios if scenario.id not in known]

    def add(self, more: Sequence[Demonstration], usd: float = 0.0) -> None:
        """Put more into the store, which cost `usd`; StoreConflict where another run wrote."""
        # Counted even if the write fails: a second try pays for nothing again.
        self._collected = self._collected.model_copy(update={"usd": self.usd + usd})
        demonstrations = (*self.all, *more)
        added = self._collected.model_copy(update={"demonstrations": demonstrations})
        self._stored.write(added.model_dump_json().encode())
        self._collected = added


def record_of(
    demonstrations: Sequence[Demonstration], config: TrainConfig, scenarios: int, usd: float = 0.0
) -> WarmStartRecord:
    """Build the ledger's record of a warm start for which so many scenarios were set apart.

    A ConfigError says that there is nothing to imitate.
    """
    assert config.warm_start is not None
    shown = []
    left_out: Counter[str] = Counter()
    for one in demonstrations:
        if one.cause:
            left_out[one.cause] += 1
        else:
            shown.append(one)
    if not shown:
        causes = ", ".join(f"{count} {cause}" for cause, count in left_out.most_common())
        raise ConfigError(
            f"The warm start has nothing to imitate ({causes or 'no scenario'}).",
            "Give it another source, more scenarios or more samples, or leave warm_start out.",
        )
    rewards = [one.reward for one in shown if one.reward is not None]
    return WarmStartRecord(
        source=config.warm_start.source,
        scenarios=scenarios,
        demonstrations=len(shown),
        left_out=dict(left_out),
        reward=statistics.fmean(rewards) if rewards else None,
        usd=usd,
    )


def trajectories(demonstrations: Sequence[Demonstration]) -> list[art.Trajectory]:
    """Return each demonstration as a trajectory; the policy's own answers are choices with
    tokens."""
    shown = []
    for one in demonstrations:
        if not one.cause:
            first, *others = one.conversations
            trajectory = art.Trajectory(messages_and_choices=[], tools=_tools(first))
            # ART's validation would drop what its types do not know.
            trajectory.messages_and_choices = _items(first)
            for conversation in others:
                history = History(messages_and_choices=[], tools=_tools(conversation))
                history.messages_and_choices = _items(conversation)
                trajectory.additional_histories.append(history)
            shown.append(trajectory)
    return shown


def _tools(conversation: ShownConversation) -> Any:
    return list(conversation.tools) or None


def _items(conversation: ShownConversation) -> list[Any]:
    items: list[Any] = []
    for place, message in enumerate(conversation.messages):
        tokens = conversation.token_ids.get(place)
        if tokens is None:
            items.append(message)
        else:
            sampled = Sampled((), tokens, [0.0] * len(tokens))
            choice = {"index": 0, "finish_reason": "stop", "message": message}
            items.append(with_tokens(choice, sampled))
    return items


def sft_options(config: TrainConfig, demonstrations: int) -> dict[str, Any]:
    """Return the options of a backend's `train_sft` for so many demonstrations."""
    settings = config.warm_start
    assert settings is not None
    updates = settings.epochs * math.ceil(demonstrations / settings.batch_size)
    rates = create_lr_schedule(
        updates,
        settings.learning_rate or config.trainer.sft_learning_rate,
        warmup_steps=int(_WARMUP_SHARE * updates),
    )
    return {"batch_size": settings.batch_size, "learning_rates": rates}
