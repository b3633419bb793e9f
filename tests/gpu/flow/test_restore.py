"""A checkpoint of the store is the model: a fresh trainer that restores it writes the same.

vLLM adds the parts of an adapter's product in the order in which they come, and so computes the
same adapter a little differently each time: where two words are nearly as likely, one run takes
the other. So all summaries have to begin alike, and most to be the same to their end.
"""

import asyncio
from pathlib import Path

from precis.records.documents import load_corpus
from precis.trainer.protocol import StoredModel
from tests.gpu.flow.conftest import STEPS, TrainedRun, count_alike, trainer_in, write_greedily


def test_a_fresh_trainer_writes_the_same_summaries(trained_run: TrainedRun, tmp_path: Path) -> None:
    restored = asyncio.run(_restore_and_write(trained_run, tmp_path / "fresh"))
    pairs = list(zip(restored, trained_run.summaries, strict=True))
    alike = [count_alike(one, other) for one, other in pairs]
    print(f"Words before one differs: {alike} of {[len(one.split()) for one in restored]}")
    assert min(alike) >= 20, pairs
    assert sum(one == other for one, other in pairs) > len(pairs) / 2


async def _restore_and_write(run: TrainedRun, folder: Path) -> list[str]:
    config = run.config
    documents = load_corpus(config.documents).validation[: len(run.texts)]
    async with trainer_in(folder, config) as (trainer, model):
        stored = StoredModel(store=config.store, name=config.model, run="fresh")
        await trainer.restore(model, STEPS, stored)
        await model.register(trainer)
        return await write_greedily(model, documents, config.rollouts)
