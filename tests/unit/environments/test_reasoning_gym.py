"""Puzzles of reasoning-gym: asked through the recorder, scored in a process that is sealed off."""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest

from precis.environments.isolated import ProcessDied
from precis.environments.reasoning_gym import environment as module
from precis.environments.reasoning_gym.environment import ReasoningGym
from precis.errors import ConfigError
from precis.llm.server import ApiError, ChatRequest
from precis.settings.environment import ReasoningGymSettings
from precis.training.opening import load_agent
from precis.training.validation import validation_of
from tests.services.needs import leave_out
from tests.support.examples import Baseline, LastingModule, play, score_of
from tests.support.scripted_policy import ScriptedPolicy

UNANSWERED = {"boxnet", "graph_color", "propositional_logic", "rubiks_cube", "rush_hour"}
"""Many answers are right there, and the generator names none."""


PUZZLES = LastingModule("precis.environments.reasoning_gym.puzzles")


@pytest.fixture(scope="module", autouse=True)
def process() -> Iterator[None]:
    if find_spec("reasoning_gym") is None:
        leave_out("reasoning-gym is not installed, which needs a C compiler")
    yield
    PUZZLES.close_now()


def environment(dataset: str, **given: Any) -> ReasoningGym:
    few = {"size": 6, "val_size": 3}
    settings = ReasoningGymSettings.model_validate({"dataset": dataset, **few, **given})
    return ReasoningGym(settings, PUZZLES, "0.1.25")


@pytest.mark.long
def test_the_own_answers_of_all_generators_earn_all() -> None:
    known = PUZZLES.call_now("datasets")
    assert len(known) == 105
    unanswered = set()
    for name in known:
        asked = (name, {"size": 9}, 7, 0)
        answer = PUZZLES.call_now("answer", *asked)
        if answer is None:
            unanswered.add(name)
        score = PUZZLES.call_now("score", *asked, answer or "none")
        assert (score == 1.0) == (answer is not None), name
    assert unanswered == UNANSWERED


async def test_the_solver_solves_all_and_a_guess_is_mostly_wrong() -> None:
    puzzles = environment("countdown", size=12)
    solved = await play(puzzles, Baseline(puzzles, "solver"), 12)
    guessed = await play(puzzles, Baseline(puzzles, "random"), 12)
    validation = validation_of(0, solved, 1.0, puzzles)
    assert (validation.measure, str(validation.score)) == ("solved", "100.0%")
    assert sum(bool(score_of(one).success) for one in guessed) < 6
    assert len({one.text for one in guessed}) > 1
    nobodys = ChatRequest(model="m", messages=[{"role": "user", "content": "?"}])
    with pytest.raises(ApiError, match="no answer to this"):
        await puzzles.baselines()["solver"](nobodys)


async def test_an_answer_that_can_t_be_scored_is_no_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """That a call without an end ends its process alone, test_isolated.py shows."""
    call = LastingModule.call

    async def dies_once(puzzles: LastingModule, function: str, *arguments: Any) -> Any:
        if arguments[-1] == "too long":
            raise ProcessDied("It took longer than 30 s, and was ended.")
        return await call(puzzles, function, *arguments)

    monkeypatch.setattr(LastingModule, "call", dies_once)
    puzzles = environment("spiral_matrix", size=2, val_size=1)
    said = iter(["<answer>too long</answer>", "<answer>[1]</answer>"])
    late, scored = await play(puzzles, ScriptedPolicy(lambda _: next(said)), 2)
    assert late.score.cause == "environment_died"
    assert score_of(scored).reward < 1


@pytest.mark.parametrize("dataset", ["coin_flip", "tower_of_hanoi"])
def test_splits_have_no_question_in_common(dataset: str) -> None:
    puzzles = environment(dataset, size=120, val_size=20)
    train = [one["question"] for one in puzzles.scenarios("train")]
    held_out = [one["question"] for one in puzzles.scenarios("validation")]
    assert (len(train), len(held_out)) == (120, 20) == (120, len(set(held_out)))
    assert not set(train) & set(held_out)
    again = environment(dataset, size=120, val_size=20)
    assert again.digest == puzzles.digest
    assert environment(dataset, size=120, val_size=20, seed=2).digest != puzzles.digest


def test_a_generator_with_too_few_puzzles_is_refused_with_their_number() -> None:
    few = {"min_disks": 3, "max_disks": 3, "min_pegs": 3, "max_pegs": 3}
    with pytest.raises(ConfigError, match=r"have \d+ to hold out and 0 others to train on"):
        environment("tower_of_hanoi", val_size=100, parameters=few)


async def test_a_reply_without_an_answer_is_counted() -> None:
    [rollout] = await play(environment("countdown"), ScriptedPolicy(lambda _: "Hm."), 1)
    assert (score_of(rollout).reward, score_of(rollout).metrics["illegal"]) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"dataset": "countdwn"}, "has no dataset 'countdwn'; it has countdown"),
        ({"dataset": "countdown", "parameters": {"size": 9}}, r"Set environment\.size instead"),
        ({"dataset": "countdown", "parameters": {"seed": 9}}, r"Set environment\.seed instead"),
        (
            {"dataset": "countdown", "parameters": {"min_number": 3}},
            r"argument 'min_number'.*; its parameters are \(min_numbers: int = 4, .*\. Change env",
        ),
    ],
)
def test_settings_unknown_to_the_package_are_named(given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        environment(**given)


async def test_it_is_whole_and_says_so_in_preflight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IsolatedModule", lambda _: PUZZLES)
    monkeypatch.setattr(PUZZLES, "close_now", lambda: None)  # a start takes seconds
    settings = ReasoningGymSettings(dataset="countdown", size=6, val_size=3)
    async with load_agent(settings) as puzzles:
        assert puzzles.identity == {"kind": "reasoning_gym", "version": "0.1.25"}
        assert puzzles.digest == environment("countdown").digest
        assert puzzles.rules != environment("countdown", parameters={"min_numbers": 3}).rules
        assert await puzzles.checks() == ()
