"""Codenames: the policy plays spymaster and guesser of one team, and both earn its reward.

make rehearse ENVIRONMENT=examples/codenames.py
"""

import json
import random

import codenames_words

from precis.environments.protocol import Nouns, Score

FREE_CLUES = False
"""Whether a clue may be any word that is not part of one on the board, for a language model. Else
it must be in a list, for the embedded policy."""
ILLEGAL_MAX = 3
"""This many illegal calls of one player end the game, with a reward of 0."""
OURS, THEIRS, BYSTANDERS = 9, 8, 7
"""The number of words of each side; one more is the assassin."""

nouns = Nouns("game", "games", "board", "boards", reward="reward", success="win rate")

SPYMASTER = """You are the spymaster of Codenames. Call `give_clue` with one word and a number: so
many of our words on the board belong to it. Your guesser sees the words, but not whose they are."""
GUESSER = """You are the guesser of Codenames. Call `guess` with a word on the board that belongs to
the clue, one at a time; `pass` ends the turn. Who touches the assassin loses."""
WORDS = codenames_words.WORDS.split()
CLUES = codenames_words.CLUES.split()
WORD = {"type": "string"} if FREE_CLUES else {"type": "string", "enum": CLUES}
NUMBER = {"type": "integer", "minimum": 1, "maximum": 4}


def scenarios(split):
    seeds = range(400) if split == "train" else range(10_000, 10_050)
    return [{"id": f"board-{seed}", "seed": seed} for seed in seeds]


async def rollout(model, scenario):
    chance = random.Random(scenario["seed"])
    left = dealt(chance)
    spymaster = Player(model, SPYMASTER, tool("give_clue", word=WORD, number=NUMBER))
    words = {"type": "string", "enum": [*sorted(left), "pass"]}
    guesser = Player(model, GUESSER, tool("guess", word=words))
    rounds, ending = 0, ""
    while not ending:
        rounds += 1
        key = "\n".join(f"{word}: {owner}" for word, owner in sorted(left.items()))
        clue = await spymaster.ask(key, clue_problem, left)
        guesses = 0
        while clue and guesses < clue["number"] and not ending:
            said = f"{', '.join(sorted(left))}\nThe clue: {clue['word']} for {clue['number']}"
            guess = await guesser.ask(said, guess_problem, left, guesses)
            if not guess or guess["word"] == "pass":
                break
            guesses += 1
            owner = left.pop(guess["word"])
            ending = "assassin" if owner == "assassin" else ended(left)
            if owner != "ours":
                break
        if max(spymaster.illegal, guesser.illegal) >= ILLEGAL_MAX:
            ending = "illegal"
        if not ending:
            # The other team finds one of its words.
            del left[chance.choice(sorted(word for word in left if left[word] == "theirs"))]
            ending = ended(left)
    found = OURS - list(left.values()).count("ours")
    share = 0.0 if ending in ("assassin", "illegal") else 0.5 * found / OURS
    metrics = {"turns": spymaster.calls + guesser.calls, "rounds": rounds, "found": found}
    metrics["illegal"] = spymaster.illegal + guesser.illegal
    metrics["assassin"] = ending == "assassin"
    return Score(1.0 if ending == "won" else share, ending == "won", metrics)


class Player:
    """One of the two players: a conversation with the policy, and the player's tool."""

    def __init__(self, model, rules, tool):
        self.model, self.tool = model, tool
        self.messages = [{"role": "system", "content": rules}]
        self.calls = self.illegal = 0

    async def ask(self, said, problem_of, *state):
        """Return the arguments of the next legal call; None after too many illegal ones."""
        while self.illegal < ILLEGAL_MAX:
            self.say(said)
            reply = await self.model.openai_client().chat.completions.create(
                model=self.model.get_inference_name(), messages=self.messages, tools=[self.tool]
            )
            self.calls += 1
            self.messages.append(reply.choices[0].message.model_dump(exclude_none=True))
            try:
                called = self.messages[-1]["tool_calls"][0]["function"]
                given = json.loads(called["arguments"])
                known = called["name"] == self.tool["function"]["name"]
                problem = problem_of(given, *state) if known else "There is no such tool."
            except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
                problem = f"No call that can be read ({error})."
            if not problem:
                return given
            self.illegal += 1
            said = f"{problem} Call `{self.tool['function']['name']}` again."
        return None

    def say(self, said):
        """Answer the calls of the last message, or its text."""
        answers = []
        for call in self.messages[-1].get("tool_calls") or ():
            answers.append({"role": "tool", "tool_call_id": call["id"], "content": said})
        self.messages += answers or [{"role": "user", "content": said}]


def tool(name, **properties):
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    function = {"name": name, "description": "Your turn.", "parameters": schema}
    return {"type": "function", "function": function}


def dealt(chance):
    """Return the owner of each word of a new board."""
    owners = ["ours"] * OURS + ["theirs"] * THEIRS + ["bystander"] * BYSTANDERS + ["assassin"]
    return dict(zip(chance.sample(WORDS, len(owners)), owners, strict=True))


def ended(left):
    """Return how a game has ended; empty if it has not."""
    if "ours" not in left.values():
        return "won"
    return "" if "theirs" in left.values() else "lost"


def clue_problem(given, left):
    """Return what is wrong with a clue; empty if it is legal."""
    word, number = given["word"], given["number"]
    if type(number) is not int or not 1 <= number <= 4:
        return "The number is from 1 to 4."
    if not FREE_CLUES:
        return "" if word in CLUES else "The word is none of the clues in the list."
    if not word.isalpha():
        return "A clue is one word, of letters alone."
    touching = [other for other in left if other in word.lower() or word.lower() in other]
    return f"A clue may not be part of a word on the board: {touching[0]}." if touching else ""


def guess_problem(given, left, guesses):
    """Return what is wrong with a guess; empty if it is legal."""
    if given["word"] == "pass":
        return "" if guesses else "Guess one word at least."
    return "" if given["word"] in left else "That is no word on the board, or no longer."
