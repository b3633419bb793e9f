"""A teacher over real HTTP: asked once for each document, within the budget."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from precis.benchmark.teacher import Teacher
from precis.config import ContenderConfig, RolloutsConfig
from precis.environments.recorder import Recorder
from precis.errors import ConfigError, RolloutError
from precis.llm.budget import Budget
from precis.llm.server import ApiError, Choice, completions_app
from precis.records.demonstrations import Demonstration
from precis.records.documents import Corpus, Document
from precis.store import FolderStore
from tests.support.bridges import document
from tests.support.environments import summaries
from tests.support.local_server import serving
from tests.support.provider import Provider

KEYS = {"CONTENDER_API_KEY": "sk-secret-key"}
DOCUMENTS = [document(number) for number in range(4)]


@pytest.fixture
def provider() -> Provider:
    return Provider()


@pytest.fixture
async def teacher(provider: Provider) -> AsyncIterator[Teacher]:
    async with serving(completions_app(provider, lambda: ["m"], "sk-secret-key")) as url:
        config = ContenderConfig(
            model="m", provider="url", base_url=f"{url}/v1", prices=(1.0, 1.0), tries_max=1
        )
        yield Teacher(config, KEYS, RolloutsConfig(words_max=30))


async def taught(
    teacher: Teacher, documents: Sequence[Document], folder: Path
) -> list[Demonstration]:
    environment = summaries(Corpus((), tuple(documents)), judge=None, words_max=30).unjudged()
    async with Recorder() as recorder:
        scenarios = environment.scenarios("validation")
        store, budget = FolderStore(folder), Budget(None)
        rollouts = await teacher.attempt(environment, scenarios, recorder, store, budget)
    return [environment.demonstrate([one]) for one in rollouts]


async def test_a_summary_that_would_earn_nothing_is_left_out(
    teacher: Teacher, provider: Provider, tmp_path: Path
) -> None:
    provider.answer = lambda request: Choice("mayor " * 31)
    (one,) = await taught(teacher, DOCUMENTS[:1], tmp_path)
    assert one.cause == "over_length"


async def test_a_teacher_that_fails_too_often_stops_the_run_and_says_why(
    teacher: Teacher, provider: Provider, tmp_path: Path
) -> None:
    def answer(_: object) -> Choice:
        raise ApiError(500, "overloaded", "server_error")

    provider.answer = answer
    with pytest.raises(RolloutError, match="ended only 0 of 4 summaries"):
        await taught(teacher, DOCUMENTS, tmp_path)


def test_a_teacher_without_its_key_is_refused() -> None:
    config = ContenderConfig(model="m", provider="url", base_url="http://x/v1")
    with pytest.raises(ConfigError, match="CONTENDER_API_KEY"):
        Teacher(config, {}, RolloutsConfig())
