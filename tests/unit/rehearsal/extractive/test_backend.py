"""The embedded policy through ART's own client, over HTTP on the loopback."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import art
import numpy as np
import openai
import pytest
import pytest_asyncio
from openai.types.chat.chat_completion import ChatCompletion
from pydantic import ValidationError
from starlette.applications import Starlette

from precis.environments.summaries.prompt import summary_messages
from precis.errors import TrainerError
from precis.rehearsal.backend import EmbeddedBackend
from precis.rehearsal.checkpoint_files import load
from precis.rehearsal.extractive.kind import SENTENCES
from precis.rehearsal.grpo import logprobs_of
from precis.rehearsal.train_step import passes, with_advantages
from precis.settings.trainer import ExtractiveTrainer
from precis.text import count_words
from tests.support.local_server import serving
from tests.support.policies import SAMPLED, sampled_choice
from tests.support.trainers import complete

WORDS_MAX = 40
DOCUMENT = " ".join(
    f"Ada Lind paid {n} crowns on Monday. People like the place for many reasons, as ever."
    for n in range(12)
)


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> EmbeddedBackend:
    return EmbeddedBackend(SENTENCES, path=tmp_path_factory.mktemp("art"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def address(backend: EmbeddedBackend) -> AsyncIterator[str]:
    async with serving(Starlette(routes=backend.completions)) as url:
        yield url


@pytest_asyncio.fixture(loop_scope="module")
async def model(
    backend: art.Backend, address: str, request: pytest.FixtureRequest
) -> art.TrainableModel[Any, Any]:
    """A model of each test's own; one server serves them all."""
    model: art.TrainableModel[Any, Any] = art.TrainableModel(
        name=request.node.name, project="tests", base_model="extractive", report_metrics=[]
    )
    await model.register(backend)
    model.inference_base_url, model.inference_api_key = f"{address}/v1", "any"
    return model


async def summarize(
    model: art.TrainableModel[Any, Any], name: str | None = None, **options: Any
) -> ChatCompletion:
    messages: Any = options.pop("messages", summary_messages(DOCUMENT, WORDS_MAX))
    name = name or model.get_inference_name()
    return await complete(model, model=name, messages=messages, **options)


async def rollout(model: art.TrainableModel[Any, Any], seed: int) -> art.Trajectory:
    messages: Any = summary_messages(DOCUMENT, WORDS_MAX)
    choice = sampled_choice(await summarize(model, seed=seed, **SAMPLED))
    content = choice.message.content or ""
    reward = content.count("crowns") / count_words(content)
    return art.Trajectory(messages_and_choices=[*messages, choice], reward=reward)


async def test_a_stale_sample_is_corrected_for_by_the_probabilities_of_who_sampled_it(
    model: art.TrainableModel[Any, Any], backend: EmbeddedBackend
) -> None:
    """Sampled from adapter 0 and trained at 1: the ratio's denominator is adapter 0's."""
    stale = []
    for first in (0, 10, 20):
        stale.append(
            art.TrajectoryGroup([await rollout(model, seed) for seed in range(first, first + 6)])
        )
    sampled = [[SENTENCES.samples_of(one) for one in group.trajectories] for group in stale]
    samples, advantages = with_advantages(sampled)
    batch = SENTENCES.batch_of(samples, advantages)
    folder = Path(model.base_path) / "tests" / "models" / model.name
    by_first = logprobs_of(load(folder, 0, SENTENCES.layout).policy.weights, batch)
    assert np.allclose(batch.logprobs[batch.valid], by_first[batch.valid])
    await backend.train(model, stale)
    current = load(folder, 1, SENTENCES.layout)
    await backend.train(model, stale, epochs=1)
    trained = load(folder, 2, SENTENCES.layout).policy.weights
    once = ExtractiveTrainer(epochs=1)
    ((corrected, _),) = passes(current, batch, once)
    assert np.array_equal(trained, corrected.policy.weights)
    as_if_current = replace(batch, logprobs=logprobs_of(current.policy.weights, batch))
    ((uncorrected, _),) = passes(current, as_if_current, once)
    assert not np.allclose(trained, uncorrected.policy.weights)


async def test_logprobs_name_the_sentences_in_order(model: art.TrainableModel[Any, Any]) -> None:
    answer = await summarize(model, seed=1, logprobs=True, n=3, name=model.name)
    assert answer.model == f"{model.name}@0"
    assert len({choice.message.content for choice in answer.choices}) == 3
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None and logprobs.content is not None
    ids = [int(entry.token.removeprefix("token_id:")) for entry in logprobs.content]
    assert ids != sorted(ids)
    assert all(entry.logprob < 0 for entry in logprobs.content)
    again = await summarize(model, seed=1, n=1)
    assert again.choices[0].message == answer.choices[0].message
    assert again.choices[0].logprobs is None


async def test_errors_are_openais(model: art.TrainableModel[Any, Any]) -> None:
    for name in (f"{model.name}@9", f"{model.name}@x", f"{model.name}@", "other"):
        with pytest.raises(openai.NotFoundError, match="does not exist") as missing:
            await summarize(model, name=name)
        assert missing.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError, match="temperature"):
        await summarize(model, temperature=-1)
    with pytest.raises(openai.BadRequestError, match="No document found"):
        await summarize(model, messages=[{"role": "user", "content": "Hello"}])


async def test_what_can_not_be_trained_on_is_refused(
    model: art.TrainableModel[Any, Any], backend: EmbeddedBackend
) -> None:
    messages: Any = summary_messages(DOCUMENT, WORDS_MAX)
    plain = (await summarize(model, seed=1)).choices[0]
    full = sampled_choice(await summarize(model, seed=1, **SAMPLED))
    for items, complaint in (
        (messages, "no choice"),
        ([*messages, plain], "no token ids"),
        ([*summary_messages("Short. Text.", WORDS_MAX), full], "messages were changed"),
    ):
        group = art.TrajectoryGroup([art.Trajectory(messages_and_choices=items)])
        with pytest.raises(TrainerError, match=complaint):
            await backend.train(model, [group])
    with pytest.raises(ValidationError, match="warmth"):
        await backend.train(model, [], warmth=1)
    foreign: Any = {"role": "assistant", "content": "Zzz."}
    shown = [art.Trajectory(messages_and_choices=[*messages, foreign])]
    with pytest.raises(TrainerError, match=r"nothing in common with its document: 'Zzz\.'"):
        await backend.train_sft(model, shown, batch_size=1, learning_rates=[0.1])
    twin: art.TrainableModel[Any, Any] = art.TrainableModel(
        name=model.name, project="another", base_model="extractive"
    )
    with pytest.raises(TrainerError, match="another project"):
        await twin.register(backend)
    assert await model.get_step() == 0


async def test_supervised_training_imitates_summaries(model: art.TrainableModel[Any, Any]) -> None:
    """Imitation of nothing hung the trainer."""
    await model.train_sft([])
    assert await model.get_step() == 1
    messages: Any = summary_messages(DOCUMENT, WORDS_MAX)
    shown = " ".join(f"Ada Lind paid {n} crowns on Monday." for n in range(5))
    message: Any = {"role": "assistant", "content": shown}
    trajectories = [art.Trajectory(messages_and_choices=[*messages, message]) for _ in range(16)]
    await model.train_sft(trajectories, art.TrainSFTConfig(learning_rate=0.1, batch_size=4))
    assert await model.get_step() == 2
    learned = await summarize(model, temperature=0)
    assert str(learned.choices[0].message.content).count("crowns") == 5
