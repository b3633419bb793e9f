"""A tool puzzle: find the way out of a house by searching rooms, reading notes, unlocking doors.

make rehearse ENVIRONMENT=examples/locked_rooms.py
"""

import json
import random

from precis.environments.protocol import Nouns, Score

ROOMS = 3
"""Rooms to get through."""
TURNS_MAX, ILLEGAL_MAX = 20, 8

nouns = Nouns("house", "houses", "house", "houses", success="got out")

RULES = """Find the way out of the house, room by room, in the order that you are told. A note
in each room says which key opens which door, and where it leads. A wrong key, or a door that leads
elsewhere, sets off the alarm, and you have lost. Make one call at a time."""
PLACES = ["desk", "shelf", "rug", "clock", "vase", "chest", "stove", "mirror"]
# Held-out houses have other words: memorized names are useless there.
WORDS = {
    "train": {
        "room": "kitchen cellar attic library pantry study nursery workshop parlour stable",
        "key": "brass iron silver copper golden wooden",
        "door": "red green blue white black yellow",
    },
    "validation": {
        "room": "chapel gallery larder office laundry armoury bakery vault dairy studio",
        "key": "bronze steel pewter nickel ivory leaden",
        "door": "purple orange grey pink brown turquoise",
    },
}
NOTES = [
    "The {key} key opens the {door} door, which leads to the {room}.",
    "To the {room}: {door} door, {key} key.",
    "Behind the {door} door lies the {room}. It takes the {key} key.",
]


def scenarios(split):
    seeds = range(400) if split == "train" else range(10_000, 10_100)
    return [{"id": f"house-{seed}", "seed": seed, "split": split} for seed in seeds]


async def rollout(model, scenario):
    house = House(scenario)
    begin = f"Your way: {', '.join(house.way)}.\n{house.described()}"
    messages = [{"role": "system", "content": RULES}, {"role": "user", "content": begin}]
    turn = illegal = 0
    while turn < TURNS_MAX and illegal < ILLEGAL_MAX and not house.over:
        turn += 1
        reply = await model.openai_client().chat.completions.create(
            model=model.get_inference_name(), messages=messages, tools=house.tools()
        )
        message = reply.choices[0].message.model_dump(exclude_none=True)
        messages.append(message)
        if not message.get("tool_calls"):
            illegal += 1
            messages.append({"role": "user", "content": "Call one of the tools."})
        for call in message.get("tool_calls") or ():
            try:
                said = house.call(call["function"]["name"], call["function"]["arguments"])
            except (RecursionError, TypeError, ValueError) as error:
                illegal += 1
                said = f"This call can't be made: {error}."
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": said})
    metrics = {"turns": turn, "illegal": illegal, "rooms": house.passed, "alarm": house.alarm}
    return Score(house.passed / ROOMS, house.passed == ROOMS, metrics)


class House:
    """A house and its visitor's progress; `plan` has the result of `furnished` for each room."""

    def __init__(self, scenario):
        chance = random.Random(scenario["seed"])
        words = {kind: text.split() for kind, text in WORDS[scenario["split"]].items()}
        rooms = chance.sample(words["room"], len(words["room"]))
        self.way, elsewhere = rooms[: ROOMS + 1], rooms[ROOMS + 1 :]
        self.plan = [furnished(room, elsewhere, words, chance) for room in self.way[1:]]
        self.passed, self.carried, self.searched = 0, [], []
        self.over = self.alarm = False

    def described(self):
        if self.over:
            return "You are out."
        doors, places, _ = self.plan[self.passed]
        here = f"You are in the {self.way[self.passed]}. There are the {', the '.join(places)}"
        return f"{here}, and {len(doors)} doors: {', '.join(doors)}."

    def tools(self):
        """Return the tools that can be called now, with their possible arguments."""
        doors, places, _ = self.plan[self.passed]
        left = [place for place in places if place not in self.searched]
        offered = [("search", "Look into a place of the room.", {"place": left})]
        offered.append(("unlock", "Try a key on a door.", {"key": self.carried, "door": doors}))
        return [tool(*one) for one in offered if all(one[2].values())]

    def call(self, name, arguments):
        """Return a tool's result. Raises TypeError or ValueError for a call that can't be made."""
        given = json.loads(arguments)
        if not isinstance(given, dict):
            raise ValueError("its arguments are no object")
        if self.over:
            raise ValueError("the visit is over")
        doors, places, leads_on = self.plan[self.passed]
        if name == "search" and given.get("place") in places:
            self.searched.append(given["place"])
            key, found = places[given["place"]]
            self.carried += [key] if key and key not in self.carried else []
            return found
        if name == "unlock" and given.get("key") in self.carried and given.get("door") in doors:
            self.over = self.alarm = (given["key"], given["door"]) != leads_on
            if self.alarm:
                return "The alarm goes off."
            self.passed, self.carried, self.searched = self.passed + 1, [], []
            self.over = self.passed == ROOMS
            return f"The door opens, and shuts behind you. The keys are gone.\n{self.described()}"
        raise ValueError("search a place, or try a key that you have on a door, of this room")


def furnished(next_room, elsewhere, words, chance):
    """Return a room's doors, the key and the text at each place, and the key and door to the
    next."""
    keys, doors = chance.sample(words["key"], 2), chance.sample(words["door"], 3)
    note = chance.choice(NOTES)
    lines = [note.format(key=keys[0], door=doors[0], room=next_room)]
    lines.append(note.format(key=keys[1], door=doors[1], room=chance.choice(elsewhere)))
    things = [(key, f"You find the {key} key.") for key in keys]
    things.append((None, "\n".join(["You find a note.", *chance.sample(lines, 2)])))
    chance.shuffle(things)
    places = dict(zip(chance.sample(PLACES, 3), things, strict=True))
    return sorted(doors), places, (keys[0], doors[0])


def tool(name, description, choices):
    given = {one: {"type": "string", "enum": list(values)} for one, values in choices.items()}
    schema = {"type": "object", "properties": given, "required": list(choices)}
    function = {"name": name, "description": description, "parameters": schema}
    return {"type": "function", "function": function}
