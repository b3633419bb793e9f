"""The second judge before a run begins: another one than the first, and foretold."""

from typing import Any

import pytest

from precis.config import TrainConfig
from precis.environments.summaries.forecast import forecast_judging, forecast_second_judge
from precis.errors import ConfigError
from precis.records.documents import Corpus
from precis.training.preflight import Preflight
from tests.support.environments import summaries_of
from tests.support.reports import document

HELD_OUT = [document(number) for number in range(4)]


class Judge:
    """Answers its trial question."""

    def __init__(self, model: str) -> None:
        self.identity = {"model": model}

    async def check(self) -> str:
        return self.identity["model"]


def config(**given: Any) -> TrainConfig:
    judges = {"judge": {"provider": "openrouter"}, "second_judge": {"provider": "openrouter"}}
    return TrainConfig.model_validate({"model": "m", "store": "s", **judges, **given})


def preflight(first: str, second: str | None) -> Preflight:
    opinion = Judge(second) if second else None
    environment = summaries_of(config(), Corpus((), tuple(HELD_OUT)), Judge(first), opinion)
    return Preflight(config(), environment, print)


async def test_a_second_judge_that_is_the_first_again_is_refused() -> None:
    with pytest.raises(ConfigError, match="the first one again, flash"):
        await preflight("flash", "flash").checks()["second judge"]()
    assert await preflight("flash", "gpt").checks()["second judge"]() == "gpt"
    assert "second judge" not in preflight("flash", None).checks()


def test_the_forecast_counts_the_second_judge_s_validations_alone() -> None:
    run = config(steps=30, validate_every=10, benchmark=False)
    ahead = forecast_second_judge(run, 0, HELD_OUT, "openai/gpt-4.1")
    assert ahead is not None and ahead.usd is not None and ahead.usd > 0
    assert ahead.figures["calls"] == 2 * 4 * 4  # two calls, four validations, four documents
    assert str(ahead).startswith("The second judge will be called")
    first = forecast_judging(run, 0, HELD_OUT, "google/gemini-2.5-flash")
    assert first.figures["calls"] == 2 * (30 * 5 * 8 + 4 * 4)
