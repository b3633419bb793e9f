"""The examples that are games and puzzles: their rules, their rewards, and who wins."""

import itertools
import json
import random
import re
from typing import Any

import pytest

from precis.environments.conversations import conversations_of
from precis.environments.trajectories import trajectory_of
from precis.llm.server import ChatRequest, ToolCall
from precis.records.rollout import Rollout
from tests.support.examples import call, example, module_of, play, score_of
from tests.support.scripted_policy import ScriptedPolicy

LOCKED_ROOMS = example("locked_rooms.py")
HOUSES: Any = module_of(LOCKED_ROOMS)
TILES: Any = module_of(example("2048.py"))
CODENAMES: Any = module_of(example("codenames.py"))
CLUES: Any = module_of(example("temporal_clue.py"))


def direction(request: ChatRequest) -> str:
    rows = request.messages[-1]["content"].splitlines()[-4:]
    legal = TILES.legal([[int(tile.replace(".", "0")) for tile in row.split()] for row in rows])
    return next(one for one in ("down", "left", "right", "up") if one in legal)


@pytest.mark.parametrize(
    ("row", "after"),
    [
        ([2, 2, 2, 2], [4, 4, 0, 0]),
        ([4, 2, 2, 0], [4, 4, 0, 0]),
        ([2, 0, 2, 4], [4, 4, 0, 0]),
        ([2, 4, 2, 4], [2, 4, 2, 4]),
        ([2, 2, 2, 0], [4, 2, 0, 0]),
    ],
)
def test_tiles_slide_and_merge_once(row: list[int], after: list[int]) -> None:
    assert TILES.slid([row] * 4, "left") == [after] * 4
    assert TILES.slid([row[::-1]] * 4, "right") == [after[::-1]] * 4
    columns = [[tile] * 4 for tile in row]
    assert TILES.slid(columns, "up") == [[tile] * 4 for tile in after]
    assert TILES.slid(columns[::-1], "down") == [[tile] * 4 for tile in after[::-1]]


def test_the_reward_is_that_of_art_s_example() -> None:
    board = [[2, 2, 0, 0], [0] * 4, [0] * 4, [0] * 4]
    assert TILES.reward_of(board) == pytest.approx(0.2 * 1 / 9)  # a sum of 4 of 64 × 16
    board = [[32, 0, 0, 0], [0] * 4, [0] * 4, [0] * 4]
    assert TILES.reward_of(board) == pytest.approx(4 / 5 + 0.2 * 4 / 9)
    assert TILES.reward_of([[64, 2, 2, 0], [0] * 4, [0] * 4, [0] * 4]) == 2.0


async def test_2048_is_the_same_by_call_and_by_text() -> None:
    def by_call(request: ChatRequest) -> ToolCall:
        return call(request, "move", direction=direction(request))

    rollouts = await play(example("2048.py"), ScriptedPolicy(by_call), 3)
    assert {score_of(one).success for one in rollouts} == {True, False}
    for rollout in rollouts:
        score = score_of(rollout)
        assert score.metrics["illegal"] == 0
        assert score.success == (score.reward == 2.0) == (score.metrics["largest_tile"] == 64)
        roles = [one["role"] for one in rollout.calls[-1].messages[2:]]
        assert roles == ["assistant", "tool"] * (len(rollout.calls) - 1)
    by_text = ScriptedPolicy(lambda asked: f"I keep on.\n<move>{direction(asked)}</move>")
    (written,) = await play(example("2048.py"), by_text, 1)
    assert written.score == rollouts[0].score
    roles = [one["role"] for one in written.calls[-1].messages[2:]]
    assert roles == ["assistant", "user"] * (len(written.calls) - 1)


def tool_of(request: ChatRequest) -> str:
    return str((request.tools or [])[0]["function"]["name"])


def owners() -> dict[str, str]:
    """Whose the words of the first scenario are."""
    seed = example("codenames.py").scenarios("train")[0]["seed"]
    found: dict[str, str] = CODENAMES.dealt(random.Random(seed))
    return found


def words_of(request: ChatRequest) -> list[str]:
    return list(request.messages[-1]["content"].partition("\n")[0].split(", "))


async def play_one(owner: str) -> Rollout:
    """A game whose guesser knows the key, and touches words of this owner."""
    whose = owners()

    def say(request: ChatRequest) -> ToolCall:
        if tool_of(request) == "give_clue":
            return call(request, "give_clue", word="animal", number=2)
        word = next(one for one in words_of(request) if whose[one] == owner)
        return call(request, "guess", word=word)

    (rollout,) = await play(example("codenames.py"), ScriptedPolicy(say), 1)
    return rollout


async def test_a_team_that_finds_all_its_words_wins_together_and_its_guesser_sees_no_key() -> None:
    rollout = await play_one("ours")
    score = score_of(rollout)
    assert (score.reward, score.success) == (1.0, True)
    assert (score.metrics["turns"], score.metrics["rounds"], score.metrics["found"]) == (14, 5, 9)
    conversations = conversations_of(rollout.calls)
    assert len(conversations) == 2
    for conversation, name in zip(conversations, ("give_clue", "guess"), strict=True):
        assert conversation.tools[0]["function"]["name"] == name
    assert len(trajectory_of(rollout).additional_histories) == 1
    heard = [one["content"] for one in conversations[1].messages[1:] if one["role"] != "assistant"]
    for owner in ("ours", "theirs", "bystander", "assassin"):
        assert not any(owner in content for content in heard)


@pytest.mark.parametrize(("owner", "rounds", "turns"), [("assassin", 1, 2), ("theirs", 4, 8)])
async def test_the_assassin_or_others_words_end_a_game(owner: str, rounds: int, turns: int) -> None:
    score = score_of(await play_one(owner))
    assert (score.reward, score.success) == (0.0, False)
    assert score.metrics["assassin"] == (owner == "assassin")
    # Of the other team's 8 words a round uncovers two.
    assert (score.metrics["rounds"], score.metrics["turns"]) == (rounds, turns)


async def test_who_passes_keeps_what_was_found() -> None:
    whose = owners()

    def say(request: ChatRequest) -> ToolCall:
        if tool_of(request) == "give_clue":
            return call(request, "give_clue", word="animal", number=4)
        ours = [one for one in words_of(request) if whose[one] == "ours"]
        last = [one for one in request.messages if one["role"] == "assistant"][-1:]
        if last and "pass" not in str(last):
            return call(request, "guess", word="pass")
        return call(request, "guess", word=ours[0])

    (rollout,) = await play(example("codenames.py"), ScriptedPolicy(say), 1)
    # The other team finds its eighth word in the eighth round.
    assert score_of(rollout).reward == pytest.approx(0.5 * 8 / 9)
    assert (rollout.metrics["turns"], rollout.metrics["found"]) == (24, 8)


def test_a_call_against_the_rules_is_told_which(monkeypatch: pytest.MonkeyPatch) -> None:
    left = owners()
    word = next(iter(left))
    part = f"A clue may not be part of a word on the board: {word}."
    for are_free, clue, number, said in (
        (False, "animal", 1, ""),
        (False, "animal", 7, "The number is from 1 to 4."),
        (False, "zoo", 1, "The word is none of the clues in the list."),
        (True, "zoo", 1, ""),
        (True, "two words", 1, "A clue is one word, of letters alone."),
        (True, f"{word}s", 1, part),
        (True, word[:-1].upper(), 1, part),
    ):
        monkeypatch.setattr(CODENAMES, "FREE_CLUES", are_free)
        assert CODENAMES.clue_problem({"word": clue, "number": number}, left) == said
    for guess, guesses, said in (
        (word, 0, ""),
        ("zoo", 1, "That is no word on the board, or no longer."),
        ("pass", 1, ""),
        ("pass", 0, "Guess one word at least."),
    ):
        assert CODENAMES.guess_problem({"word": guess}, left, guesses) == said


def allowed(request: ChatRequest) -> dict[str, dict[str, list[str]]]:
    """The values of each argument of each tool."""
    listed = {}
    for one in request.tools or ():
        properties = one["function"]["parameters"]["properties"]
        listed[one["function"]["name"]] = {
            name: given["enum"] for name, given in properties.items()
        }
    return listed


def visitor(request: ChatRequest) -> ToolCall:
    """Searches all of a room, then follows the line of its note that names the next room."""
    said = [str(one["content"]) for one in request.messages if one["role"] != "assistant"]
    way = said[1].split("Your way: ")[1].split(".")[0].split(", ")
    left = allowed(request).get("search", {}).get("place")
    if left:
        return call(request, "search", place=left[0])
    offered = allowed(request)["unlock"]
    here = [one for one in said if "You are in the " in one][-1]
    room = here.split("You are in the ")[1].split(".")[0]
    following = way[way.index(room) + 1]
    (note,) = [one for one in said[said.index(here) :] if one.startswith("You find a note.")]
    (line,) = [one for one in note.splitlines() if f" {following}" in one]
    (key,) = [one for one in offered["key"] if f"{one} key" in line]
    (door,) = [one for one in offered["door"] if f"{one} door" in line]
    return call(request, "unlock", key=key, door=door)


@pytest.mark.parametrize(("rooms", "wrong"), [(0, "key"), (2, "door"), (3, "")])
async def test_whoever_reads_the_notes_gets_out_and_no_one_else(rooms: int, wrong: str) -> None:
    def say(request: ChatRequest) -> ToolCall:
        made = visitor(request)
        passed = str(request.messages).count("The door opens")
        if made.name == "search" or passed < rooms:
            return made
        given = json.loads(made.arguments)
        others = [one for one in allowed(request)["unlock"][wrong] if one != given[wrong]]
        return call(request, "unlock", **{**given, wrong: others[0]})

    for rollout in await play(LOCKED_ROOMS, ScriptedPolicy(say), 4):
        score = score_of(rollout)
        assert (score.reward, score.success) == (rooms / HOUSES.ROOMS, not wrong)
        turns = 4 * (rooms + 1 if wrong else rooms)
        assert score.metrics == {"turns": turns, "illegal": 0, "rooms": rooms, "alarm": bool(wrong)}


def test_held_out_houses_have_words_of_their_own() -> None:
    shown = {}
    for split in ("train", "validation"):
        named = HOUSES.WORDS[split].values()
        shown[split] = {word for text in named for word in text.split()}
        for scenario in LOCKED_ROOMS.scenarios(split):
            for _, places, (key, door) in HOUSES.House(scenario).plan:
                assert {key, door} <= shown[split]
                assert key in {found for found, _ in places.values()}
    assert not shown["train"] & shown["validation"]


def test_a_clue_means_what_it_says() -> None:
    rooms, hours = (0, 1, 2), (2, 0, 1)  # of Ada, Boris and Clara
    holds = {text: test(rooms, hours) for text, test in CLUES.all_clues(3)}
    assert len(holds) == 36
    for text in (
        "Ada was not in the garden.",
        "Nobody saw Boris at 7 pm.",
        "Boris came before Clara.",
        "Somebody was in the garden just an hour before somebody was in the kitchen.",
        "Clara came after whoever was in the garden.",
    ):
        assert holds[text]
    for text in (
        "Ada was not in the cellar.",
        "Nobody saw Boris at 6 pm.",
        "Ada came before Clara.",
        "Somebody was in the cellar just an hour before somebody was in the kitchen.",
        "Clara came after whoever was in the cellar.",
    ):
        assert not holds[text]


@pytest.mark.parametrize("size", CLUES.SIZES)
def test_the_clues_of_a_puzzle_leave_one_solution(size: int) -> None:
    prompt, solution, _ = CLUES.puzzle(7, size)
    orders = list(itertools.permutations(range(size)))
    worlds = list(itertools.product(orders, orders))
    holds = dict(CLUES.all_clues(size))
    for clue in re.findall(r"^- (.*)$", prompt, re.M):
        left = [world for world in worlds if holds[clue](*world)]
        assert len(left) < len(worlds), "a clue rules nothing out"
        worlds = left
    [(room_of, hour_of)] = worlds
    (scene,) = re.findall(r"broken in the (\w+)\.", prompt)
    (other,) = re.findall(r"where was (\w+)\?", prompt)
    culprit = room_of.index(CLUES.ROOMS.index(scene))
    assert solution == {
        "who": CLUES.SUSPECTS[culprit],
        "when": CLUES.HOURS[hour_of[culprit]],
        "where": CLUES.ROOMS[room_of[CLUES.SUSPECTS.index(other)]],
    }


@pytest.mark.parametrize("wrong", [0, 1])
async def test_a_wrong_answer_costs_its_share(wrong: int) -> None:
    environment = example("temporal_clue.py")
    solutions = {}
    for one in environment.scenarios("train")[:6]:
        prompt, solution, _ = CLUES.puzzle(one["seed"], one["size"])
        solutions[prompt] = solution

    def say(request: ChatRequest) -> ToolCall:
        right = solutions[request.messages[0]["content"]]
        properties = (request.tools or [])[0]["function"]["parameters"]["properties"]
        others = [room for room in properties["where"]["enum"] if room != right["where"]]
        return call(request, "answer", **(right | ({"where": others[0]} if wrong else {})))

    rollouts = await play(environment, ScriptedPolicy(say), 6)
    assert {one.scenario["size"] for one in rollouts} == set(CLUES.SIZES)
    for rollout in rollouts:
        score = score_of(rollout)
        assert (score.reward, score.success) == ((3 - wrong) / 3, not wrong)
        assert score.metrics == {"turns": 1, "illegal": 0, "right": 3 - wrong}
