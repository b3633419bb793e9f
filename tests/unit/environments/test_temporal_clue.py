"""The example Temporal Clue: each puzzle is solved from its text alone, and has one solution."""

import itertools
import re
from collections.abc import Callable
from typing import Any

import pytest

from precis.llm.server import ChatRequest, ToolCall
from tests.support.examples import call, example, module_of, play, score_of
from tests.support.scripted_policy import ScriptedPolicy

PUZZLES: Any = module_of(example("temporal_clue.py"))
World = tuple[dict[str, str], dict[str, int]]
NAME, ROOM, HOUR = r"([A-Z]\w+)", r"the (\w+)", r"(\d+) pm"
READINGS: list[tuple[str, Callable[[dict[str, str], dict[str, int], str, str], bool]]] = [
    (f"{NAME} was not in {ROOM}.", lambda room, hour, a, b: room[a] != b),
    (f"Nobody saw {NAME} at {HOUR}.", lambda room, hour, a, b: hour[a] != int(b)),
    (f"{NAME} came before {NAME}.", lambda room, hour, a, b: hour[a] < hour[b]),
    (
        f"{NAME} came after whoever was in {ROOM}.",
        lambda room, hour, a, b: hour[a] > at(room, hour, b),
    ),
    (
        f"Somebody was in {ROOM} just an hour before somebody was in {ROOM}.",
        lambda room, hour, a, b: at(room, hour, a) + 1 == at(room, hour, b),
    ),
]


def at(room: dict[str, str], hour: dict[str, int], wanted: str) -> int:
    return next(hour[who] for who in room if room[who] == wanted)


def fits(world: World, clue: str) -> bool:
    for pattern, holds in READINGS:
        found = re.fullmatch(pattern, clue)
        if found:
            return holds(*world, *found.groups())
    raise AssertionError(f"Nobody can read {clue!r}.")


def solve(prompt: str) -> list[dict[str, str]]:
    """Every answer that a puzzle's text leaves possible."""
    people = re.findall(r"house: (.*?)\.", prompt)[0].split(", ")
    rooms = re.findall(r"\(([a-z, ]+)\)", prompt)[0].split(", ")
    hours = list(map(int, re.findall(r"(\d+) pm", prompt.partition("The vase")[0])))
    worlds: list[World] = []
    for placed in itertools.permutations(rooms):
        for timed in itertools.permutations(hours):
            room = dict(zip(people, placed, strict=True))
            worlds.append((room, dict(zip(people, timed, strict=True))))
    for clue in re.findall(r"^- (.*)$", prompt, re.M):
        worlds = [world for world in worlds if fits(world, clue)]
    (scene,) = re.findall(r"broken in the (\w+)\.", prompt)
    (other,) = re.findall(r"where was (\w+)\?", prompt)
    solutions = []
    for room, hour in worlds:
        who = next(one for one in room if room[one] == scene)
        solutions.append({"who": who, "when": f"{hour[who]} pm", "where": room[other]})
    return solutions


def detective(request: ChatRequest) -> ToolCall:
    (solution,) = solve(request.messages[0]["content"])
    return call(request, "answer", **solution)


async def test_the_clues_leave_one_solution_and_who_finds_it_earns_everything() -> None:
    rollouts = await play(example("temporal_clue.py"), ScriptedPolicy(detective), 6)
    assert {one.scenario["size"] for one in rollouts} == set(PUZZLES.SIZES)
    for rollout in rollouts:
        score = score_of(rollout)
        assert (score.reward, score.success) == (1.0, True)
        assert score.metrics == {"turns": 1, "illegal": 0, "right": 3}


async def test_a_wrong_answer_costs_its_share() -> None:
    def say(request: ChatRequest) -> ToolCall:
        right = solve(request.messages[0]["content"])[0]
        properties = (request.tools or [])[0]["function"]["parameters"]["properties"]
        wrong = next(room for room in properties["where"]["enum"] if room != right["where"])
        return call(request, "answer", **{**right, "where": wrong})

    for rollout in await play(example("temporal_clue.py"), ScriptedPolicy(say), 2):
        assert score_of(rollout).reward == pytest.approx(2 / 3)
        assert not score_of(rollout).success
