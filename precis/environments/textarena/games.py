"""TextArena's games, played in a process of their own (`precis.environments.isolated`).

Each game has Python's and numpy's global generators to itself: they are put in place before each of
its moves.
"""

import copy
import itertools
import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import nltk
import numpy as np
import textarena
from textarena.envs.registration import ENV_REGISTRY

_PLAYERS_MAX = 15
_OF_A_MODEL = ("-raw", "-train")
"""The endings of the names of a game's other wrappings."""
_TRIES_MAX = 200
"""Moves that are tried on a copy, at most, to find those that the game allows."""
_SLOTS_MAX = 4
"""A move with more numbers and letters than these is not varied."""
_FEW_SLOTS = 2
_DIGITS = "0123456789"
_LETTERS = "ABCDEFGHIJ"
_BRACKETED = re.compile(r"\[([^\[\]\n]{1,40})\]")
_SLOT = re.compile(r"(\d+|(?<![^\W\d_])[A-Za-z](?![^\W\d_]))")
"""A number, or a letter that stands for a place: it has no other letter beside it."""
_SEAT = re.compile(r"Player \d+|GAME", re.IGNORECASE)

# Some games download word lists when they are imported: they find what is here, or fail.
nltk.download = lambda *_, **__: False


@dataclass
class Game:
    """A game that is played, with the states of Python's and numpy's generators, what it has told
    each player, and their moves that were none."""

    env: Any
    generators: tuple[Any, Any]
    seen: dict[int, list[str]] = field(default_factory=dict)
    illegal: dict[int, int] = field(default_factory=dict)


_games: dict[int, Game] = {}


def names() -> list[str]:
    """Return the names of all games."""
    return sorted(name for name in ENV_REGISTRY if not name.endswith(_OF_A_MODEL))


def start(number: int, name: str, players: int, seed: int) -> dict[str, Any]:
    """Begin a game; returns how many `players` it has, and its state (`_state`).

    Args:
        number: by which it is known until its `end`.
        players: 0 takes the fewest that it can be played with.
    """
    random.seed(seed)
    np.random.seed(seed % 2**32)
    # Without the wrappings that say the whole past again with each turn.
    raw = f"{name}-raw"
    env = textarena.make(raw if raw in ENV_REGISTRY else name)
    problem: Exception | None = None
    for count in [players] if players else range(1, _PLAYERS_MAX + 1):
        try:
            env.reset(num_players=count, seed=seed)
            break
        except (AssertionError, ValueError) as error:
            problem = error
    else:
        raise ValueError(f"It can't be played by {players or 'any number of'} players: {problem}")
    game = _games[number] = Game(env, _generators())
    return {"players": env.state.num_players, **_state(game)}


def play(number: int, move: str) -> dict[str, Any]:
    """Make the move of the player whose turn it is; returns the game's state.

    A move that raises an error in the game's code is taken back, and the state has that `error`.
    """
    game = _game(number)
    _put(game.generators)
    player = game.env.state.current_player_id
    before = copy.deepcopy(game.env)
    try:
        is_illegal = _make(game.env, move)
    except Exception as error:  # of the game, which did not expect such a move
        game.env = before
        game.illegal[player] = game.illegal.get(player, 0) + 1
        return {
            "done": False,
            "player": player,
            "text": f"That move can't be read ({error}). Please submit another one.",
            "illegal": game.illegal,
            "error": f"{type(error).__name__}: {error}",
        }
    if is_illegal:
        game.illegal[player] = game.illegal.get(player, 0) + 1
    game.generators = _generators()
    return _state(game)


def play_randomly(number: int, seed: int) -> dict[str, Any]:
    """Make a move that the game allows, if one is found, and any other if not; returns state and
    move."""
    move = choose_randomly(number, seed)
    return {**play(number, move), "move": move}


def choose_randomly(number: int, seed: int) -> str:
    """Return such a move, and make none."""
    game = _game(number)
    draw = random.Random(seed)
    few, many = _candidates(game)
    draw.shuffle(few)
    draw.shuffle(many)
    candidates = [*few, *many]
    return next(_allowed(game, candidates), candidates[0] if candidates else "[pass]")


def moves(number: int) -> list[str]:
    """Return moves that the game allows, as far as they can be found."""
    few, many = _candidates(_game(number))
    return list(_allowed(_game(number), [*few, *many]))


def end(number: int) -> None:
    """Forget a game, whether it was played to its end or not."""
    _games.pop(number, None)


def _game(number: int) -> Game:
    if number not in _games:
        raise LookupError("The game was lost with the process that played it.")
    return _games[number]


def _state(game: Game) -> dict[str, Any]:
    """Return the player whose turn it is, and what is new to it; of an ended game the rewards."""
    state = game.env.state
    if state.done:
        rewards, info = game.env.close()
        reasons = {player: one.get("reason") for player, one in (info or {}).items()}
        return {
            "done": True,
            "rewards": rewards or {},
            "reasons": reasons,
            "illegal": game.illegal,
        }
    player, observed = game.env.get_observation()
    # Another player's words are no rules: nobody puts moves into a random player's mouth.
    seen = game.seen.setdefault(player, [])
    for sender, *parts in observed:
        if sender == textarena.GAME_ID:
            seen.extend(map(str, parts))
    text = _text_of(state, player, observed)
    return {"done": False, "player": player, "text": text, "illegal": game.illegal}


def _text_of(state: Any, player: int, observed: list[tuple[int, Any, Any]]) -> str:
    """Return what is new to a player as a message: the newest board alone, and no move of its."""
    kinds = [getattr(kind, "name", "PROMPT") for _, _, kind in observed]
    boards = [place for place, kind in enumerate(kinds) if kind == "GAME_BOARD"]
    lines = []
    for place, (sender, said, kind) in enumerate(observed):
        # Three games name the prompt where its kind belongs.
        message = said if isinstance(said, str) else str(kind)
        if kinds[place] == "GAME_BOARD" and place != boards[-1]:
            continue
        if kinds[place] == "PLAYER_ACTION":
            if sender != player:
                name = state.role_mapping.get(sender, f"Player {sender}")
                lines.append(f"{name}: {message.strip()}")
            continue
        lines.append(message.strip())
    return "\n\n".join(line for line in lines if line) or "It is your turn."


def _make(env: Any, move: str) -> bool:
    """Make a move; returns whether it was none that the game allows."""
    state = env.state
    player = state.current_player_id
    errors = getattr(state, "error_count", 0)
    env.step(move)
    if getattr(state, "error_count", 0) > errors:
        return True
    return bool(state.game_info[player].get("invalid_move"))


def _allowed(game: Game, candidates: Iterable[str]) -> Iterator[str]:
    """Give those of some moves that the game allows, each tried on a copy of it."""
    for move in itertools.islice(candidates, _TRIES_MAX):
        _put(game.generators)
        tried = copy.deepcopy(game.env)
        try:
            if not _make(tried, move):
                yield move
        except Exception:  # a move that breaks the game is none to make
            continue


def _candidates(game: Game) -> tuple[list[str], list[str]]:
    """Return moves that may be allowed: what stands in brackets in what the player was told, with
    numbers and letters varied. Those of many variants are given apart from the others."""
    player = game.env.state.current_player_id
    found: dict[str, None] = {}
    for text in reversed(game.seen.get(player, [])):
        for inner in _BRACKETED.findall(text):
            if not _SEAT.fullmatch(inner):
                found.setdefault(inner)
    few = dict(found)
    many: dict[str, None] = {}
    for inner in found:
        slots = len(_SLOT.findall(inner))
        if slots <= _FEW_SLOTS:
            few.update(dict.fromkeys(_varied(inner)))
        elif slots <= _SLOTS_MAX:
            many.update(dict.fromkeys(_varied(inner)))
    return [f"[{inner}]" for inner in few], [f"[{inner}]" for inner in many if inner not in few]


def _varied(inner: str) -> Iterator[str]:
    choices = []
    for place, part in enumerate(_SLOT.split(inner)):
        is_slot = place % 2 == 1
        if not is_slot:
            choices.append([part])
        elif part.isdigit():
            choices.append(list(_DIGITS))
        else:
            choices.append(list(_LETTERS if part.isupper() else _LETTERS.lower()))
    return map("".join, itertools.product(*choices))


def _generators() -> tuple[Any, Any]:
    return random.getstate(), np.random.get_state()


def _put(generators: tuple[Any, Any]) -> None:
    of_python, of_numpy = generators
    random.setstate(of_python)
    np.random.set_state(of_numpy)
