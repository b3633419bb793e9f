"""A run of three steps on random rewards, for tests of what comes after training.

Its adapter differs from the base whatever the model earns, so that any model will do.
"""

import asyncio
import os
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import art
import pytest

from precis.cluster.local import LocalHost
from precis.config import DocumentsConfig, RolloutsConfig, TrainConfig
from precis.environments.protocol import Environment, Scenario, Split
from precis.environments.recorder import Recorder
from precis.environments.summaries.prompt import scenario_of, summary_messages, summary_tokens_max
from precis.environments.trajectories import trajectory_of
from precis.models.record import training_record, write_record
from precis.records.documents import Document, load_corpus
from precis.records.ledger import Ledger, write_ledger
from precis.rollouts.sample import sample_each, sample_groups, sampled
from precis.settings.trainer import ArtTrainer, EngineConfig
from precis.store import open_store
from precis.trainer.client import RemoteTrainer
from precis.trainer.protocol import StoredModel
from precis.training.run import PROJECT
from precis.training.stages import greedy_policy
from tests.support.ledgers import record

STEPS = 3
_SAMPLES = 4


@dataclass(frozen=True)
class TrainedRun:
    """A run in a store, and what its trainer wrote at the end.

    Attributes:
        summaries: greedy ones of `texts`.
    """

    config: TrainConfig
    texts: list[str]
    summaries: list[str]

    @property
    def served_as(self) -> str:
        return f"{self.config.model}@{STEPS}"


@pytest.fixture(scope="session")
def trained_run(tmp_path_factory: pytest.TempPathFactory) -> TrainedRun:
    """Needs a GPU and `PRECIS_GPU_MODEL`."""
    base_model = os.environ.get("PRECIS_GPU_MODEL", "")
    if not base_model:
        pytest.skip("PRECIS_GPU_MODEL names no model to train")
    folder = tmp_path_factory.mktemp("run")
    config = TrainConfig(
        model="random",
        steps=STEPS,
        documents=DocumentsConfig(train_size=160, val_size=32),
        trainer=ArtTrainer(
            base_model=base_model,
            learning_rate=3e-4,
            warmup_steps=0,
            engine=EngineConfig(lora_rank=16, gpu_memory_share=0.2, tokens_max=3072),
        ),
        rollouts=RolloutsConfig(groups_per_step=4, rollouts_per_group=_SAMPLES),
        store=str(folder / "store"),
    )
    documents = load_corpus(config.documents).validation[:3]
    summaries = asyncio.run(_train(config, folder / "trainer", documents))
    return TrainedRun(config, [document.text for document in documents], summaries)


async def _train(config: TrainConfig, folder: Path, documents: Sequence[Document]) -> list[str]:
    store = open_store(config.store)
    stored = StoredModel(store=config.store, name=config.model, run="random")
    chance = random.Random(1)
    ledger = Ledger(model=config.model, config="random", corpus="bundled")
    async with trainer_in(folder, config) as (trainer, model):
        await trainer.begin(model, "random")
        await model.register(trainer)
        for step in range(STEPS):
            groups = [
                await _sample(model, document, config.rollouts, step, chance)
                for document in load_corpus(config.documents).train[:4]
            ]
            result = await trainer.train(
                model, groups, step=step, run="random", **config.trainer.options
            )
            assert result.metrics["data/step_num_gradient_steps"]
            await trainer.commit(model, step + 1, stored)
            ledger = ledger.advance(record(step))
        write_ledger(store, ledger, None)
        write_record(store, config.model, training_record(config, "nobody"))
        return await write_greedily(model, documents, config.rollouts)


async def _sample(
    model: art.TrainableModel[Any, Any],
    document: Document,
    settings: RolloutsConfig,
    step: int,
    chance: random.Random,
) -> art.TrajectoryGroup:
    each = settings.model_copy(update={"rollouts_per_group": _SAMPLES})
    async with (
        Recorder() as recorder,
        greedy_policy(model, step, each) as greedy,
    ):
        policy = sampled(greedy, 100, step, settings.temperature)
        scenario = scenario_of(document)
        (rollouts,) = await sample_groups(recorder, policy, Writing(settings), [scenario], each)
    trajectories = []
    for at, one in enumerate(rollouts):
        # Never all the same.
        trajectories.append(trajectory_of(one, chance.random() if at else 2.0))
    return art.TrajectoryGroup(trajectories)


class Writing(Environment):
    """Has summaries written, and judges none of them."""

    def __init__(self, settings: RolloutsConfig) -> None:
        self._words_max = settings.words_max

    def scenarios(self, split: Split) -> Sequence[Scenario]:
        return []

    async def rollout(self, model: Any, scenario: Scenario) -> float:
        messages: Any = summary_messages(scenario["text"], self._words_max)
        await model.openai_client().chat.completions.create(
            model=model.get_inference_name(),
            messages=messages,
            max_tokens=summary_tokens_max(self._words_max),
        )
        return 1.0


async def write_greedily(
    model: art.TrainableModel[Any, Any], documents: Sequence[Document], settings: RolloutsConfig
) -> list[str]:
    """One summary of each document, from the last step's adapter, one after another."""
    alone = settings.model_copy(update={"in_flight": 1})
    async with (
        Recorder() as recorder,
        greedy_policy(model, STEPS, alone) as policy,
    ):
        scenarios = list(map(scenario_of, documents))
        found = await sample_each(recorder, policy, Writing(settings), scenarios, alone)
    return [one.text for one in found]


@asynccontextmanager
async def trainer_in(
    folder: Path, config: TrainConfig
) -> AsyncIterator[tuple[RemoteTrainer, art.TrainableModel[Any, Any]]]:
    """A trainer on this machine's GPU that works in a folder, and the model to train."""
    folder.mkdir(exist_ok=True)
    site = LocalHost(folder, config.seed, folder / "trainer.log", "local")
    model: art.TrainableModel[Any, Any] = art.TrainableModel(
        name=config.model,
        project=PROJECT,
        base_model=config.trainer.base_model,
        report_metrics=[],
        _internal_config=config.trainer.internal_config,  # type: ignore[arg-type]
    )
    try:
        address = await site.up()
        trainer = RemoteTrainer(address.url, address.token, folder / "art")
        yield trainer, model
        await trainer.close()
    finally:
        await site.down()


def count_alike(one: str, other: str) -> int:
    """How many words two texts begin with in common."""
    pairs = zip(one.split(), other.split(), strict=False)
    return len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
