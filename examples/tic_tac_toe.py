"""Tic Tac Toe by tool calls: an environment in one file.

make rehearse ENVIRONMENT=examples/tic_tac_toe.py    # no key, no GPU: an embedded policy learns it
precis train examples/tic_tac_toe.py
"""

import json
import random
from functools import lru_cache

from precis.environments.protocol import Nouns, Score

STRENGTH = 0.0
"""The share of the opponent's moves that are its best, 0 to 1; the others are random."""

nouns = Nouns("game", "games", "board", "boards", reward="reward", success="win rate")

RULES = "Play Tic Tac Toe as x: call `play` with the number of a free cell. Three in a row win."
CELL = {"type": "integer", "enum": [1, 2, 3, 4, 5, 6, 7, 8, 9]}
SCHEMA = {"type": "object", "properties": {"cell": CELL}, "required": ["cell"]}
FUNCTION = {"name": "play", "description": "Put your x into a free cell.", "parameters": SCHEMA}
PLAY = {"type": "function", "function": FUNCTION}
LINES = ("123", "456", "789", "147", "258", "369", "159", "357")


def scenarios(split):
    seeds = range(400) if split == "train" else range(10_000, 10_100)
    return [{"id": f"game-{seed}", "seed": seed} for seed in seeds]


async def rollout(model, scenario):
    chance = random.Random(scenario["seed"])
    board = "123456789" if scenario["seed"] % 2 else answered("123456789", chance)
    messages = [{"role": "system", "content": RULES}, {"role": "user", "content": drawn(board)}]
    for turn in range(1, 6):
        reply = await model.openai_client().chat.completions.create(
            model=model.get_inference_name(), messages=messages, tools=[PLAY]
        )
        message = reply.choices[0].message.model_dump(exclude_none=True)
        cell = cell_of(message)
        if cell not in free(board):
            return Score(0.0, False, {"turns": turn, "illegal": 1})
        board = board.replace(cell, "x")
        if not winner(board) and free(board):
            board = answered(board, chance)
        if winner(board) or not free(board):
            break
        messages.append(message)
        for call in message["tool_calls"]:  # the first is played; the API wants all answered
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": drawn(board)})
    reward = {"x": 1.0, "o": 0.0}.get(winner(board), 0.5)
    return Score(reward, reward == 1.0, {"turns": turn, "illegal": 0})


def show(rollout):
    turns = []
    for call in rollout.calls:
        board = call.messages[-1]["content"]
        turns.append(f"```\n{board}\n```\n\nx plays **{cell_of(call.message) or 'nothing'}**.")
    return "\n\n".join(turns)


def cell_of(message):
    """Return the cell of a message's first call; empty if there is no readable one."""
    try:
        return str(json.loads(message["tool_calls"][0]["function"]["arguments"])["cell"])
    except (KeyError, IndexError, RecursionError, TypeError, ValueError):
        return ""


def drawn(board):
    return "\n".join(" ".join(board[start : start + 3]) for start in (0, 3, 6))


def free(board):
    return [cell for cell in board if cell.isdigit()]


def winner(board):
    rows = [{board[int(cell) - 1] for cell in line} for line in LINES]
    return next((row.pop() for row in rows if len(row) == 1), "")


def answered(board, chance):
    """Return the board after the opponent's move."""
    moves = free(board)
    if chance.random() < STRENGTH:
        best = max(value(board.replace(cell, "o"), "x") for cell in moves)
        moves = [cell for cell in moves if value(board.replace(cell, "o"), "x") == best]
    return board.replace(chance.choice(moves), "o")


@lru_cache(None)
def value(board, turn):
    """Return a board's value to the opponent, if both play their best moves."""
    if winner(board) or not free(board):
        return {"o": 1, "x": -1}.get(winner(board), 0)
    values = [value(board.replace(cell, turn), "ox"[turn == "o"]) for cell in free(board)]
    return max(values) if turn == "o" else min(values)
