"""2048 by tool calls, or by `<move>left</move>` in the text, with the reward of ART's example.

make rehearse ENVIRONMENT=examples/2048.py
"""

import json
import math
import random
import re

from precis.environments.protocol import Nouns, Score

TARGET = 64
"""The tile that wins."""
TURNS_MAX = 50
"""The most turns of a game. The setting `rollouts.turns_max` must be as high."""
ILLEGAL_MAX = 3
"""This many illegal moves in a row end the game, with a reward of -1."""

nouns = Nouns("game", "games", "board", "boards", reward="reward", success="win rate")

RULES = f"""You play 2048. Call `move`, or answer <move>left</move>, with left, right, up or down.
All tiles slide there, and two equal ones that meet merge into their sum. A move that changes
nothing is illegal. After each move a 2 or a 4 appears. A tile of {TARGET} wins."""
DIRECTIONS = ("left", "right", "up", "down")
DIRECTION = {"type": "string", "enum": list(DIRECTIONS)}
SCHEMA = {"type": "object", "properties": {"direction": DIRECTION}, "required": ["direction"]}
FUNCTION = {"name": "move", "description": "Slide all tiles.", "parameters": SCHEMA}
MOVE = {"type": "function", "function": FUNCTION}


def scenarios(split):
    seeds = range(400) if split == "train" else range(10_000, 10_050)
    return [{"id": f"game-{seed}", "seed": seed} for seed in seeds]


async def rollout(model, scenario):
    chance = random.Random(scenario["seed"])
    board = with_tile(with_tile([[0] * 4 for _ in range(4)], chance), chance)
    messages = [{"role": "system", "content": RULES}, {"role": "user", "content": drawn(board)}]
    turn = illegal = in_a_row = 0
    while turn < TURNS_MAX:
        turn += 1
        reply = await model.openai_client().chat.completions.create(
            model=model.get_inference_name(), messages=messages, tools=[MOVE]
        )
        message = reply.choices[0].message.model_dump(exclude_none=True)
        direction = direction_of(message)
        if direction in legal(board):
            in_a_row = 0
            board = with_tile(slid(board, direction), chance)
            said = drawn(board)
        else:
            illegal += 1
            in_a_row += 1
            said = f"Illegal: move {' or '.join(legal(board))}.\n{drawn(board)}"
        if largest(board) >= TARGET or not legal(board) or in_a_row == ILLEGAL_MAX:
            break
        messages += [message, *answers(message, said)]
    won = largest(board) >= TARGET
    metrics = {"turns": turn, "illegal": illegal, "largest_tile": largest(board)}
    return Score(-1.0 if in_a_row == ILLEGAL_MAX else reward_of(board), won, metrics)


def reward_of(board):
    """Return ART's reward: 2 for a win; else how near, in powers of two, with a fifth for the
    sum."""
    if largest(board) >= TARGET:
        return 2.0
    total = sum(map(sum, board))
    near = (math.log2(largest(board)) - 1) / (math.log2(TARGET) - 1)
    return near + 0.2 * (math.log2(total) - 1) / (math.log2(TARGET * 16) - 1)


def direction_of(message):
    """Return the direction of a message's move; empty if it has no readable one."""
    if not message.get("tool_calls"):
        found = re.search(r"<move>\s*(\w+)\s*</move>", message.get("content") or "")
        return found[1] if found else ""
    try:
        called = message["tool_calls"][0]["function"]
        return str(json.loads(called["arguments"])["direction"]) if called["name"] == "move" else ""
    except (KeyError, RecursionError, TypeError, ValueError):
        return ""


def answers(message, said):
    """Return the game's answers to each call of a message, or to its text."""
    calls = message.get("tool_calls")
    if not calls:
        return [{"role": "user", "content": said}]
    return [{"role": "tool", "tool_call_id": call["id"], "content": said} for call in calls]


def drawn(board):
    return "\n".join(" ".join(f"{tile or '.':>4}" for tile in row) for row in board)


def largest(board):
    return max(map(max, board))


def legal(board):
    return [direction for direction in DIRECTIONS if slid(board, direction) != board]


def slid(board, direction):
    """Return the board after a move, before a tile appears."""
    if direction in ("up", "down"):
        columns = [list(column) for column in zip(*board, strict=True)]
        turned = slid(columns, "left" if direction == "up" else "right")
        return [list(row) for row in zip(*turned, strict=True)]
    if direction == "right":
        return [merged(row[::-1])[::-1] for row in board]
    return [merged(row) for row in board]


def merged(row):
    """Return a row after it has slid to the left."""
    tiles = []
    just_merged = False
    for tile in filter(None, row):
        if tiles and tiles[-1] == tile and not just_merged:
            tiles[-1] *= 2
            just_merged = True
        else:
            tiles.append(tile)
            just_merged = False
    return tiles + [0] * (4 - len(tiles))


def with_tile(board, chance):
    """Return the board with a new 2 in a free cell, or, one time in ten, a 4."""
    free = [(y, x) for y in range(4) for x in range(4) if not board[y][x]]
    y, x = chance.choice(free)
    board = [list(row) for row in board]
    board[y][x] = 4 if chance.random() < 0.1 else 2
    return board
