"""An environment of a TextArena game, in which the policy has one seat."""

import difflib
import itertools
import json
import random
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from precis.config import RateLimits, TrainConfig
from precis.environment import Variables
from precis.environments.clock import clock_stopped
from precis.environments.isolated import IsolatedError, IsolatedModule, ProcessDied, release_of
from precis.environments.protocol import AgentModel
from precis.environments.ruler import AgentEnvironment
from precis.errors import PrecisError, ProviderError, ProviderRejected
from precis.llm.client import ChatClient, CompletionRequest, OwnServer
from precis.llm.providers import endpoint_of
from precis.llm.replies import REFUSALS
from precis.llm.retry import Deadline
from precis.llm.server import ApiError, ChatRequest, Choice, Complete, Completion
from precis.llm.tokens import estimate_tokens_with_margin
from precis.records.nouns import Nouns
from precis.records.rollout import Scenario, Score, Split, Unscored
from precis.records.spend import PRICES, Estimate, Spend, Usage, price_of
from precis.settings.environment import OpponentSettings, TextArenaSettings, opponent_of

SYSTEM = (
    "You play a game. Read its rules, and answer each message with one move, in the form that the "
    "rules ask for."
)
_SEEDS_A_SPLIT = 1_000_000
_OTHERS_MAX = 200
"""The most moves of the other seats in a row."""
_TRIED = 12
"""The moves that preflight makes in a game."""
_ASKED_MAX = 4
"""Attempts of one request for an opponent's move."""
_THOUGHT_ENDS = "</think>"
_LOST = "LookupError: The game was lost"
"""The beginning of the error of a game whose process has died."""
_SHOWN = 200
_numbers = itertools.count(1)
"""Numbers of games, assigned here, so that a game can be ended whose start was cancelled."""


class Opponent:
    """A model in the other seats of a game; see `endpoint_of` for its key. The policy reads its
    moves, but does not learn them: its requests bypass the recorder."""

    def __init__(self, settings: OpponentSettings, keys: Mapping[str, str]) -> None:
        self._settings = settings
        role = f"opponent {settings.model!r}"
        endpoint = endpoint_of(settings, keys, role, "OPPONENT_API_KEY", keyless=True)
        limits = RateLimits(in_flight=settings.in_flight)
        held_to = OwnServer(limits, settings.call_timeout_s, _ASKED_MAX)
        self.client = ChatClient(endpoint, held_to, prices=PRICES)

    async def answer(self, messages: Sequence[Mapping[str, Any]], seed: int) -> str:
        """Return its answer to a conversation. Raises ProviderFailed if it did not answer, and
        ProviderRejected if it refuses the key, the model or the request as such."""
        settings = self._settings
        payload = {
            "model": settings.model,
            "messages": list(messages),
            "temperature": settings.temperature,
            "max_tokens": settings.tokens_max,
            "seed": seed,
        }
        characters = sum(len(str(message["content"])) for message in messages)
        expected = Usage(estimate_tokens_with_margin(characters), settings.tokens_max)
        deadline = Deadline(2 * settings.call_timeout_s)
        request = CompletionRequest(payload, expected)
        with clock_stopped():  # a slow opponent must not cost the policy time
            return await self.client.complete(request, deadline, lambda reply: reply.text)

    async def checks(self) -> Sequence[str]:
        """Ask it for a word; return problems, in a sentence each."""
        try:
            await self.answer([{"role": "user", "content": "Answer with the word: ready."}], 1)
        except PrecisError as error:
            return [f"The opponent {self._settings.model!r} does not answer: {error}"]
        return ()


class TextArenaEnvironment(AgentEnvironment):
    """The environment of a game; without an opponent the other seats move at random."""

    nouns = Nouns("game", "games", "start", "starts", success="win rate")

    def __init__(
        self,
        settings: TextArenaSettings,
        games: IsolatedModule,
        release: str,
        opponent: Opponent | None,
    ) -> None:
        super().__init__({"kind": "textarena", "version": release}, settings=settings)
        self._settings = settings
        self._games = games
        self._version = release
        self._opponent = opponent
        self._under_way: dict[str, set[int]] = {}

    @property
    def method(self) -> str:
        others = self._settings.opponent
        named = others if isinstance(others, str) else others.model
        return (
            f"A game of {self._settings.game} (TextArena {self._version}) is won where the policy "
            "earns more than nothing and nobody earns more; a game for one, where it earns 1. The "
            f"other seats, where there are any: {named}."
        )

    @property
    def spend(self) -> Spend:
        return self._opponent.client.spend if self._opponent else Spend()

    def scenarios(self, split: Split) -> Sequence[Scenario]:
        settings = self._settings
        first = 2 * _SEEDS_A_SPLIT * settings.seed
        count = settings.size
        if split == "validation":
            first += _SEEDS_A_SPLIT
            count = settings.val_size
        seeds = range(first, first + count)
        return [Scenario(f"{settings.game}-{seed}", {"seed": seed}) for seed in seeds]

    async def rollout(self, model: AgentModel, scenario: Scenario) -> Score | Unscored:
        settings = self._settings
        seed = scenario["seed"]
        draw = random.Random(seed)
        number = next(_numbers)
        messages: list[dict[str, Any]] = [{"role": "system", "content": SYSTEM}]
        others: dict[int, list[dict[str, Any]]] = {}
        turns = 0
        waited = 0
        try:
            state = await self._games.call("start", number, settings.game, settings.players, seed)
            seat = seed % state["players"]
            while not state["done"] and turns < settings.moves_max:
                if state["player"] != seat:
                    waited += 1
                    if waited > _OTHERS_MAX:
                        detail = f"The other seats made {waited} moves in a row."
                        return Unscored("opponent_failed", detail)
                    told = others.setdefault(state["player"], [messages[0]])
                    state = await self._play_other(state, number, told, draw)
                    continue
                waited = 0
                turns += 1
                text = await self._text_of(state, number)
                messages.append({"role": "user", "content": text})
                said = await self._ask(model, number, messages)
                messages.append({"role": "assistant", "content": said})
                move = said.rpartition(_THOUGHT_ENDS)[2].strip()
                state = await self._games.call("play", number, move)
            metrics = {"turns": float(turns), "illegal": float(state["illegal"].get(str(seat), 0))}
            if not state["done"]:
                reason = f"It was not over after {turns} moves of the policy."
                return Score(0.0, False, metrics, {"reason": reason})
            rewards = state["rewards"]
            if str(seat) not in rewards:
                detail = "The game ended without a reward for the policy's seat."
                return Unscored("no_score", detail)
            reward = float(rewards[str(seat)])
            is_won = reward >= max(0.0, *rewards.values()) and reward > 0
            if len(rewards) == 1:
                is_won = reward >= 1
            return Score(reward, is_won, metrics, {"reason": state["reasons"].get(str(seat)) or ""})
        except ProviderError as error:
            if isinstance(error, ProviderRejected) and error.status not in REFUSALS:
                raise
            return Unscored("opponent_failed", f"The opponent made no move: {error}")
        except IsolatedError as error:
            is_lost = isinstance(error, ProcessDied) or str(error).startswith(_LOST)
            cause = "environment_died" if is_lost else "environment_failed"
            return Unscored(cause, f"The game could not go on: {error}.")
        finally:
            with suppress(IsolatedError):
                await self._games.call("end", number)

    def forecasts(self, config: TrainConfig, next_step: int) -> Sequence[Estimate]:
        """Return the estimate for an opponent's games from a step on, before the benchmark; without
        dollars, since the length of a game is not known."""
        opponent = opponent_of(self._settings)
        if opponent is None:
            return ()
        settings = config.rollouts
        groups = settings.groups_per_step + settings.replacements_max
        games = max(0, config.steps - next_step) * groups * settings.rollouts_per_group
        validations = config.count_validations(next_step)
        games += validations * self._settings.val_size
        turns_max = min(self._settings.moves_max, settings.turns_max)
        said = (
            f"The opponent {opponent.model} will play about {games:,} games, of at most "
            f"{turns_max} turns each; their cost is not known in advance."
        )
        unpriced = f"No price is known for {opponent.model}: its moves are not counted."
        warnings = () if price_of(opponent.model) else (unpriced,)
        return [Estimate(said, None, warnings)]

    def baselines(self) -> Mapping[str, Complete]:
        return {"random": self._move_randomly}

    async def checks(self) -> Sequence[str]:
        """Try the game with some random moves."""
        settings = self._settings
        number = next(_numbers)
        try:
            names = await self._games.call("names")
            if settings.game not in names:
                near = difflib.get_close_matches(settings.game, names, 3, 0.5)
                ids = ", ".join(near or names)
                return [f"TextArena {self._version} has no game {settings.game!r}; it has {ids}."]
            state = await self._games.call("start", number, settings.game, settings.players, 1)
            players = state["players"]
            tried = 0
            errors = []
            for turn in range(_TRIED):
                if state["done"]:
                    break
                state = await self._games.call("play_randomly", number, turn)
                tried += 1
                errors += [state["error"]] if "error" in state else []
            await self._games.call("end", number)
        except IsolatedError as error:
            return [f"{settings.game} can't be played: {_explain(str(error))}"]
        if tried and len(errors) == tried:
            return [f"{settings.game} can't be played: each move fails with {errors[0]}."]
        if self._opponent is not None:
            return await self._opponent.checks()
        if players > 1 and 2 * sum(state["illegal"].values()) > tried:
            return [
                f"{settings.game} does not say its moves in brackets, so that an opponent can't "
                "make any at random: name a model in environment.opponent."
            ]
        return ()

    async def close(self) -> None:
        await self._games.close()
        if self._opponent is not None:
            await self._opponent.client.close()

    async def _ask(self, model: AgentModel, number: int, messages: list[dict[str, Any]]) -> str:
        """Return the policy's answer; meanwhile its game can be found by the conversation."""
        conversation = json.dumps(messages)
        games = self._under_way.setdefault(conversation, set())
        games.add(number)
        asked: Any = messages
        try:
            reply = await model.openai_client().chat.completions.create(
                model=model.get_inference_name(), messages=asked
            )
        finally:
            games.discard(number)
            if not games:
                self._under_way.pop(conversation, None)
        return reply.choices[0].message.content or ""

    async def _text_of(self, state: Mapping[str, Any], number: int) -> str:
        text: str = state["text"]
        if not self._settings.show_moves:
            return text
        allowed = await self._games.call("moves", number)
        return f"{text}\n\nMoves that are allowed: {' '.join(allowed)}" if allowed else text

    async def _play_other(
        self,
        state: Mapping[str, Any],
        number: int,
        told: list[dict[str, Any]],
        draw: random.Random,
    ) -> Any:
        seed = draw.getrandbits(32)
        if self._opponent is None:
            return await self._games.call("play_randomly", number, seed)
        told.append({"role": "user", "content": await self._text_of(state, number)})
        said = await self._opponent.answer(told, seed)
        told.append({"role": "assistant", "content": said})
        move = said.rpartition(_THOUGHT_ENDS)[2].strip()
        return await self._games.call("play", number, move)

    async def _move_randomly(self, request: ChatRequest) -> Completion:
        conversation = json.dumps(request.messages)
        games = self._under_way.get(conversation)
        if not games:
            raise ApiError(400, "No game is under way that has come to this.", "no_game")
        seed = zlib.crc32(conversation.encode())
        # Games with the same conversation are in the same state.
        move = await self._games.call("choose_randomly", min(games), seed)
        return Completion("random", [Choice(move)])


def _explain(error: str) -> str:
    """Return a sentence on why a game can't be played, from its error."""
    shown = " ".join(error.split())[:_SHOWN]
    if "NLTK" in error:
        return (
            "it needs word lists of nltk, and may download nothing here: run `python -m "
            "nltk.downloader words averaged_perceptron_tagger_eng` first."
        )
    if "SyntaxError: f-string" in error:
        return "its code needs Python 3.12 or later."
    if "OpenRouter" in error:
        return "a model at OpenRouter is part of it, and it has no network and no key here."
    return f"{shown}."


def load_textarena(settings: TextArenaSettings) -> TextArenaEnvironment:
    release = release_of("textarena")
    games = IsolatedModule("precis.environments.textarena.games")
    model = opponent_of(settings)
    opponent = Opponent(model, Variables().keys()) if model else None
    return TextArenaEnvironment(settings, games, release, opponent)
