"""The example of locked rooms: its generator, its tools, and what a visitor may do."""

from typing import Any

from precis.llm.server import ChatRequest, ToolCall
from tests.support.examples import call, example, module_of, play, score_of
from tests.support.scripted_policy import ScriptedPolicy

ENVIRONMENT = example("locked_rooms.py")
PUZZLE: Any = module_of(ENVIRONMENT)


def allowed(request: ChatRequest) -> dict[str, dict[str, list[str]]]:
    """The values of each argument of each tool."""
    listed = {}
    for one in request.tools or ():
        properties = one["function"]["parameters"]["properties"]
        listed[one["function"]["name"]] = {
            name: given["enum"] for name, given in properties.items()
        }
    return listed


def reader(request: ChatRequest) -> ToolCall:
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


async def test_whoever_reads_the_notes_gets_out() -> None:
    for rollout in await play(ENVIRONMENT, ScriptedPolicy(reader), 20):
        score = score_of(rollout)
        assert (score.reward, score.success) == (1.0, True)
        assert score.metrics == {"turns": 12, "illegal": 0, "rooms": 3, "alarm": 0}


async def test_a_wrong_key_or_door_ends_the_visit() -> None:
    def hasty(request: ChatRequest) -> ToolCall:
        offered = allowed(request)
        if "unlock" not in offered:
            return call(request, "search", place=offered["search"]["place"][0])
        key, door = offered["unlock"]["key"][0], offered["unlock"]["door"][0]
        return call(request, "unlock", key=key, door=door)

    rollouts = await play(ENVIRONMENT, ScriptedPolicy(hasty), 40)
    alarms = [one for one in rollouts if one.metrics["alarm"]]
    assert len(alarms) > 20
    for rollout in alarms:
        assert score_of(rollout).reward == rollout.metrics["rooms"] / PUZZLE.ROOMS < 1


def test_held_out_houses_have_words_of_their_own() -> None:
    shown = {}
    for split in ("train", "validation"):
        named = PUZZLE.WORDS[split].values()
        shown[split] = {word for text in named for word in text.split()}
        for scenario in ENVIRONMENT.scenarios(split):
            for _, places, (key, door) in PUZZLE.House(scenario).plan:
                assert {key, door} <= shown[split]
                assert key in {found for found, _ in places.values()}
    assert not shown["train"] & shown["validation"]
