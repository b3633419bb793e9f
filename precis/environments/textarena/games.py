"""TextArena's games, played in a separate process (`precis.environments.isolated`).

Each game has its own states of Python's and numpy's global generators, restored before each of its
moves.
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
"""The suffixes of the names of a game's other wrappers."""
_TRIES_MAX = 200
"""The most moves to try on a copy, to find the legal ones."""
_SLOTS_MAX = 4
"""A move with more numbers and letters than this is not varied."""
_FEW_SLOTS = 2
_DIGITS = "0123456789"
_LETTERS = "ABCDEFGHIJ"
_BRACKETED = re.compile(r"\[([^\[\]\n]{1,40})\]")
_SLOT = re.compile(r"(\d+|(?<![^\W\d_])[A-Za-z](?![^\W\d_]))")
"""A number, or a single letter, which denotes a place."""
_SEAT = re.compile(r"Player \d+|GAME", re.IGNORECASE)

# Some games download word lists on import: they use installed ones, or fail.
nltk.download = lambda *_, **__: False


@dataclass
class Game:
    """A game in progress, with the states of Python's and numpy's generators, its messages to each
    player, and their illegal moves."""

    env: Any
    generators: tuple[Any, Any]
    seen: dict[int, list[str]] = field(default_factory=dict)
    illegal: dict[int, int] = field(default_factory=dict)


_games: dict[int, Game] = {}


def names() -> list[str]:
    return sorted(name for name in ENV_REGISTRY if not name.endswith(_OF_A_MODEL))


def start(number: int, name: str, players: int, seed: int) -> dict[str, Any]:
    """Start a game, identified by `number` until its `end`, with as few players as possible if
    `players` is 0. Return its number of `players`, and its state (`_state`)."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    # Without the wrappers that repeat the whole past in each turn.
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
    """Make the move of the current player; return the game's state. A move that raises an error in
    the game's code is undone, and the state has that `error`."""
    game = _game(number)
    _put(game.generators)
    player = game.env.state.current_player_id
    before = copy.deepcopy(game.env)
    try:
        is_illegal = _make(game.env, move)
    except Exception as error:  # raised by the game for an unexpected move
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
    """Make a legal move, if one is found, else any; return the game's state."""
    return play(number, choose_randomly(number, seed))


def choose_randomly(number: int, seed: int) -> str:
    """Return such a move without making it."""
    game = _game(number)
    draw = random.Random(seed)
    few, many = _candidates(game)
    draw.shuffle(few)
    draw.shuffle(many)
    candidates = [*few, *many]
    return next(_allowed(game, candidates), candidates[0] if candidates else "[pass]")


def moves(number: int) -> list[str]:
    """Return the legal moves, as far as they can be found."""
    few, many = _candidates(_game(number))
    return list(_allowed(_game(number), [*few, *many]))


def end(number: int) -> None:
    """Drop a game, finished or not."""
    _games.pop(number, None)


def _game(number: int) -> Game:
    if number not in _games:
        raise LookupError("The game was lost with the process that played it.")
    return _games[number]


def _state(game: Game) -> dict[str, Any]:
    """Return the current player, and its new messages; for an ended game the rewards."""
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
    # Other players' messages are excluded: they must not suggest moves to a random player.
    seen = game.seen.setdefault(player, [])
    for sender, *parts in observed:
        if sender == textarena.GAME_ID:
            seen.extend(map(str, parts))
    text = _text_of(state, player, observed)
    return {"done": False, "player": player, "text": text, "illegal": game.illegal}


def _text_of(state: Any, player: int, observed: list[tuple[int, Any, Any]]) -> str:
    """Return a player's new messages as one: only the newest board, and none of its own moves."""
    kinds = [getattr(kind, "name", "PROMPT") for _, _, kind in observed]
    boards = kinds.count("GAME_BOARD")
    lines = []
    for name_of_kind, (sender, said, kind) in zip(kinds, observed, strict=True):
        # Three games pass the prompt as the message's kind.
        message = said if isinstance(said, str) else str(kind)
        if name_of_kind == "GAME_BOARD":
            boards -= 1
            if boards:
                continue
        if name_of_kind == "PLAYER_ACTION":
            if sender != player:
                name = state.role_mapping.get(sender, f"Player {sender}")
                lines.append(f"{name}: {message.strip()}")
            continue
        lines.append(message.strip())
    return "\n\n".join(filter(None, lines)) or "It is your turn."


def _make(env: Any, move: str) -> bool:
    """Make a move; return whether it was illegal."""
    state = env.state
    player = state.current_player_id
    errors = getattr(state, "error_count", 0)
    env.step(move)
    if getattr(state, "error_count", 0) > errors:
        return True
    return bool(state.game_info[player].get("invalid_move"))


def _allowed(game: Game, candidates: Iterable[str]) -> Iterator[str]:
    """Yield the legal moves of some candidates, each tried on a copy of the game."""
    for move in itertools.islice(candidates, _TRIES_MAX):
        _put(game.generators)
        tried = copy.deepcopy(game.env)
        try:
            if not _make(tried, move):
                yield move
        except Exception:  # a move that crashes the game is not a candidate
            continue


def _candidates(game: Game) -> tuple[list[str], list[str]]:
    """Return possible moves: the texts in brackets in the player's messages, with numbers and
    letters varied. Those with many variants are returned separately."""
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
