"""An environment of puzzles: a question, one answer, and the generator's score of it."""

import difflib
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from precis.environments.isolated import IsolatedError, IsolatedModule, ProcessDied, release_of
from precis.environments.protocol import AgentModel
from precis.environments.ruler import AgentEnvironment
from precis.errors import ConfigError
from precis.llm.server import ApiError, ChatRequest, Choice, Complete, Completion
from precis.records.nouns import Nouns
from precis.records.rollout import Scenario, Score, Split, Unscored
from precis.settings.environment import ReasoningGymSettings

SYSTEM = (
    "Solve the puzzle. You may think first. Then give your answer between <answer> and </answer>, "
    "in the form that the puzzle asks for and without an explanation."
)
_AT_ONCE = 20
"""Questions requested per call, which has a deadline."""
_SOUGHT = 8
"""The most questions to look at for each one needed."""


class ReasoningGym(AgentEnvironment):
    """The environment of a generator; its first distinct questions are held out. Raises ConfigError
    if the package has no such generator or parameters, or too few puzzles."""

    nouns = Nouns("answer", "answers", "puzzle", "puzzles", success="solved")

    def __init__(
        self, settings: ReasoningGymSettings, puzzles: IsolatedModule, release: str
    ) -> None:
        self._settings = settings
        self._puzzles = puzzles
        self._version = release
        for name in ("size", "seed"):
            if name in settings.parameters:
                raise ConfigError(
                    f"environment.parameters can't set the {name} of the dataset.",
                    f"Set environment.{name} instead.",
                )
        try:
            known = puzzles.call_now("datasets")
            if settings.dataset not in known:
                near = difflib.get_close_matches(settings.dataset, known, 3, 0.5) or known
                raise ConfigError(
                    f"reasoning-gym {release} has no dataset {settings.dataset!r}; it has "
                    f"{', '.join(near)}.",
                    "Name one in environment.dataset.",
                )
            wanted = settings.size + settings.val_size
            # The size is the most questions to look at.
            parameters = {"size": _SOUGHT * wanted, **settings.parameters}
            self._asked = (settings.dataset, parameters, settings.seed)
            scenarios = self._draw()
        except IsolatedError as error:
            raise ConfigError(
                f"reasoning-gym can't make puzzles of {settings.dataset}: {error}.",
                "Change environment.parameters, or take another environment.dataset.",
            ) from error
        made_of = {"kind": "reasoning_gym", "version": release}
        super().__init__(made_of, scenarios, settings=settings)
        drawn = [*scenarios["train"], *scenarios["validation"]]
        self._places: dict[str, int] = {one["question"]: one["place"] for one in drawn}

    def _draw(self) -> Mapping[Split, Sequence[Scenario]]:
        """Return scenarios of both splits, without a common question."""
        settings = self._settings
        name = settings.dataset
        held_out: dict[str, Scenario] = {}
        train: list[Scenario] = []
        wanted = settings.size + settings.val_size
        place = 0
        while len(train) < settings.size and place < _SOUGHT * wanted:
            count = min(_AT_ONCE, _SOUGHT * wanted - place)
            for question in self._puzzles.call_now("questions", *self._asked, place, count):
                scenario = Scenario(f"{name}-{place}", {"place": place, "question": question})
                place += 1
                if question in held_out:
                    continue
                if len(held_out) < settings.val_size:
                    held_out[question] = scenario
                elif len(train) < settings.size:
                    train.append(scenario)
        if len(train) < settings.size:
            raise ConfigError(
                f"The first {place} puzzles of {name} have {len(held_out)} to hold out and "
                f"{len(train)} others to train on.",
                "Set environment.val_size lower, or environment.parameters that give more.",
            )
        return {"train": train, "validation": list(held_out.values())}

    @property
    def method(self) -> str:
        return (
            f"Puzzles of the generator {self._settings.dataset} (reasoning-gym {self._version}), "
            "which scores answers itself, from 0 to 1; one is solved where it earns 1."
        )

    async def rollout(self, model: AgentModel, scenario: Scenario) -> Score | Unscored:
        messages: Any = [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": scenario["question"]},
        ]
        reply = await model.openai_client().chat.completions.create(
            model=model.get_inference_name(), messages=messages
        )
        metrics = {"turns": 1.0, "illegal": 0.0}
        try:
            text = reply.choices[0].message.content or ""
            said = await self._puzzles.call("extract_answer", text)
            if said is None:
                return Score(0.0, False, {**metrics, "illegal": 1.0})
            reward = await self._call("score", scenario["place"], said)
        except ProcessDied as error:
            return Unscored("environment_died", f"The answer was not scored: {error}.")
        except IsolatedError as error:  # raised by the scoring of an unexpected answer
            return Score(0.0, False, {**metrics, "illegal": 1.0}, {"reason": str(error)})
        return Score(reward, reward >= 1, metrics)

    def baselines(self) -> Mapping[str, Complete]:
        return {"solver": self._solve, "random": self._guess}

    async def checks(self) -> Sequence[str]:
        """Score the generator's own answer to a question."""
        scenario = self._scenarios["validation"][0]
        try:
            known = await self._call("answer", scenario["place"])
            await self._call("score", scenario["place"], known or "none")
        except IsolatedError as error:
            return [f"{self._settings.dataset} can't score an answer: {error}."]
        return ()

    async def close(self) -> None:
        await self._puzzles.close()

    async def _call(self, function: str, place: int, *given: Any) -> Any:
        """Call a function of `puzzles` about a question."""
        return await self._puzzles.call(function, *self._asked, place, *given)

    async def _solve(self, request: ChatRequest) -> Completion:
        return await self._answer("solver", self._places.get(request.messages[-1]["content"]))

    async def _guess(self, request: ChatRequest) -> Completion:
        """Answer with another question's answer."""
        drawn = zlib.crc32(str(request.messages[-1]["content"]).encode())
        others = self._scenarios["train"]
        return await self._answer("random", others[drawn % len(others)]["place"])

    async def _answer(self, name: str, place: int | None) -> Completion:
        known = None if place is None else await self._call("answer", place)
        if known is None:
            raise ApiError(400, "The generator gives no answer to this.", "no_answer")
        return Completion(name, [Choice(f"<answer>{known}</answer>")])


def load_reasoning_gym(settings: ReasoningGymSettings) -> ReasoningGym:
    release = release_of("reasoning-gym")
    puzzles = IsolatedModule("precis.environments.reasoning_gym.puzzles")
    try:
        return ReasoningGym(settings, puzzles, release)
    finally:
        puzzles.close_now()  # until it is opened
