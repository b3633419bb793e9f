"""Temporal Clue: who was where, and when? Puzzles from a generator that knows the solution.

make rehearse ENVIRONMENT=examples/temporal_clue.py
"""

import itertools
import json
import random
from functools import cache

from precis.environments.protocol import Nouns, Score

SIZES = (3, 4, 5)
"""The number of suspects, of rooms and of hours, for one puzzle after the other."""
TURNS_MAX = 3
"""This many messages without a readable answer end the attempt."""

nouns = Nouns("attempt", "attempts", "puzzle", "puzzles", reward="share right", success="solved")

SUSPECTS = ("Ada", "Boris", "Clara", "Dmitri", "Elena")
ROOMS = ("cellar", "garden", "kitchen", "library", "tower")
HOURS = ("6 pm", "7 pm", "8 pm", "9 pm", "10 pm")


def scenarios(split):
    seeds = range(600) if split == "train" else range(10_000, 10_060)
    puzzles = []
    for seed, size in zip(seeds, itertools.cycle(SIZES), strict=False):
        puzzles.append({"id": f"{size}-suspects-{seed}", "seed": seed, "size": size})
    return puzzles


async def rollout(model, scenario):
    prompt, solution, tool = puzzle(scenario["seed"], scenario["size"])
    messages = [{"role": "user", "content": prompt}]
    for turn in range(1, TURNS_MAX + 1):
        reply = await model.openai_client().chat.completions.create(
            model=model.get_inference_name(), messages=messages, tools=[tool]
        )
        message = reply.choices[0].message.model_dump(exclude_none=True)
        given, problem = answer_in(message, tool)
        if not problem:
            right = sum(given[name] == solution[name] for name in solution)
            metrics = {"turns": turn, "illegal": turn - 1, "right": right}
            return Score(right / len(solution), right == len(solution), metrics)
        messages += [message, *answers(message, problem)]
    return Score(0.0, False, {"turns": turn, "illegal": turn, "right": 0})


def answer_in(message, tool):
    """Return a message's answer, and what is wrong with it; empty if it is well-formed."""
    calls = message.get("tool_calls")
    if not calls:
        return {}, "Call `answer` when you are done."
    try:
        given = json.loads(calls[0]["function"]["arguments"])
    except (KeyError, RecursionError, TypeError, ValueError) as error:
        return {}, f"The arguments can't be read: {error}."
    if calls[0]["function"]["name"] != "answer" or not isinstance(given, dict):
        return {}, "Call `answer` with `who`, `when` and `where`."
    for name, schema in tool["function"]["parameters"]["properties"].items():
        if given.get(name) not in schema["enum"]:
            return {}, f"`{name}` must be one of {', '.join(schema['enum'])}."
    return given, ""


def answers(message, said):
    """Return the answers to each call of a message, or to its text."""
    calls = message.get("tool_calls")
    if not calls:
        return [{"role": "user", "content": said}]
    return [{"role": "tool", "tool_call_id": call["id"], "content": said} for call in calls]


@cache
def puzzle(seed, size):
    """Return a puzzle's text, its solution, and the tool to answer with."""
    chance = random.Random(f"{seed} of {size}")
    people, rooms, hours = SUSPECTS[:size], ROOMS[:size], HOURS[:size]
    clues, (room_of, hour_of) = clues_with_one_solution(chance, size)
    culprit, other = chance.sample(range(size), 2)
    scene = rooms[room_of[culprit]]
    solution = {
        "who": people[culprit],
        "when": hours[hour_of[culprit]],
        "where": rooms[room_of[other]],
    }
    prompt = f"""{size} suspects were in the house: {", ".join(people)}. Each was in one room
({", ".join(rooms)}), no two in the same one, each at another hour ({", ".join(hours)}).
The vase was broken in the {scene}.

{chr(10).join(f"- {clue}" for clue in clues)}

Reason it out, then call `answer`: who broke the vase, when, and where was {people[other]}?"""
    values = {"who": people, "when": hours, "where": rooms}
    properties = {name: {"type": "string", "enum": list(of)} for name, of in values.items()}
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    function = {"name": "answer", "description": "Solve the case.", "parameters": schema}
    return prompt, solution, {"type": "function", "function": function}


def clues_with_one_solution(chance, size):
    """Return clues, each of which rules something out, and the one world that fits them all."""
    orders = list(itertools.permutations(range(size)))
    worlds = list(itertools.product(orders, orders))
    world = chance.choice(worlds)
    possible = [clue for clue in all_clues(size) if clue[1](*world)]
    chance.shuffle(possible)
    kept = []
    for text, holds in possible:
        fitting = [one for one in worlds if holds(*one)]
        if len(fitting) < len(worlds):
            kept.append(text)
            worlds = fitting
        if len(worlds) == 1:
            break
    return kept, world


def all_clues(size):
    """Yield each clue's text, with its test, given the room and the hour of each suspect."""
    for a, room in itertools.product(range(size), range(size)):
        yield f"{SUSPECTS[a]} was not in the {ROOMS[room]}.", lambda r, h, a=a, x=room: r[a] != x
    for a, hour in itertools.product(range(size), range(size)):
        yield f"Nobody saw {SUSPECTS[a]} at {HOURS[hour]}.", lambda r, h, a=a, x=hour: h[a] != x
    for a, b in itertools.permutations(range(size), 2):
        yield (
            f"{SUSPECTS[a]} came before {SUSPECTS[b]}.",
            lambda r, h, a=a, b=b: h[a] < h[b],
        )
        yield (
            f"Somebody was in the {ROOMS[a]} just an hour before somebody was in the {ROOMS[b]}.",
            lambda r, h, a=a, b=b: h[r.index(a)] + 1 == h[r.index(b)],
        )
        yield (
            f"{SUSPECTS[a]} came after whoever was in the {ROOMS[b]}.",
            lambda r, h, a=a, b=b: h[a] > h[r.index(b)],
        )
