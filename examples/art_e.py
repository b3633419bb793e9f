"""ART·E in miniature: an agent that answers questions from an inbox, by searching and reading.

make rehearse ENVIRONMENT=examples/art_e.py
"""

import contextlib
import json
import os
import re

from art_e_inbox import made_up_inbox
from art_e_index import Question, index_of, mail_of, open_file, search
from art_e_judge import is_right

from precis.environments.protocol import Nouns, Score, Unscored

MINIATURE = True
"""Whether the tools list their possible arguments in each turn, which the embedded policy needs.
False for a language model, which writes its keywords and answers itself."""
JUDGE = ""
"""The model that judges an answer which differs from the golden one, called with OPENAI_API_KEY (at
OPENAI_BASE_URL, if set). Without one such an answer is wrong."""
DATASET = ""
"""Mails in place of the made-up inbox, on the Hub or in a folder: "corbt/enron-emails"."""
DATASET_QUESTIONS = "corbt/enron_emails_sample_questions"
TRAINED_ON, HELD_OUT = 240, 48
TURNS_MAX = 8
HITS_MAX = 5
BODY_MAX = 5000

nouns = Nouns("answer", "answers", "question", "questions", success="answered right")

RULES = """Answer the question from the inbox: search it, read a mail, and return the final answer,
which is the value alone, as the mail has it. Make one call at a time."""

if DATASET:
    from art_e_hub import hub_inbox

    FILE, LEARNED, ASKED = hub_inbox(DATASET, DATASET_QUESTIONS, TRAINED_ON, HELD_OUT)
else:
    MAILS, QUESTIONS = made_up_inbox()
    LEARNED, ASKED = QUESTIONS[:TRAINED_ON], QUESTIONS[TRAINED_ON:][:HELD_OUT]


def scenarios(split):
    questions, start = (LEARNED, 0) if split == "train" else (ASKED, len(LEARNED))
    return [{"id": f"question-{n}", **vars(one)} for n, one in enumerate(questions, start)]


def open_index():
    return open_file(FILE) if DATASET else index_of(MAILS)


async def rollout(model, scenario):
    asked = Question(*(scenario[name] for name in Question.__match_args__))
    day = f"\n\nThe inbox is {asked.inbox}'s, and it is {asked.until}." if asked.inbox else ""
    messages = [{"role": "system", "content": RULES}, {"role": "user", "content": asked.text + day}]
    turn = illegal = 0
    with contextlib.closing(open_index()) as index:
        inbox = Inbox(index, asked)
        while turn < TURNS_MAX and inbox.answer is None:
            turn += 1
            reply = await model.openai_client().chat.completions.create(
                model=model.get_inference_name(), messages=messages, tools=inbox.tools()
            )
            message = reply.choices[0].message.model_dump(exclude_none=True)
            messages.append(message)
            if not message.get("tool_calls"):
                illegal += 1
                messages.append({"role": "user", "content": "Call one of the tools."})
            for call in message.get("tool_calls") or ():
                try:
                    said = inbox.call(call["function"]["name"], call["function"]["arguments"])
                except (RecursionError, TypeError, ValueError) as error:
                    illegal += 1
                    said = f"This call can't be made: {error}."
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": said})
    found, read = asked.source in inbox.found, asked.source in inbox.read
    right = await is_right(asked, inbox.answer, JUDGE)
    if isinstance(right, Unscored):
        return right
    metrics = {"turns": turn, "illegal": illegal, "found": found, "read": read}
    return Score(1.0 if right else 0.1 * found + 0.2 * read, right, metrics)


class Inbox:
    """The inbox in one rollout: what the agent has found, read and answered."""

    def __init__(self, index, question):
        self.index, self.question = index, question
        self.words = re.findall(r"\w{3,}", question.text)
        self.hits, self.found, self.read, self.candidates, self.answer = [], set(), set(), [], None

    def tools(self):
        """Return the tools; in miniature those that can be called now, with their possible
        arguments."""
        numbers = list(range(1, len(self.hits) + 1))
        offered = []
        for name, description, argument, kind, values in (
            ("search_inbox", "List mails with all keywords.", "keywords", "string", self.words),
            ("read_email", "Read a mail of the last list.", "number", "integer", numbers),
            ("return_final_answer", "End with this.", "answer", "string", self.candidates),
        ):
            schema = {"type": kind, "enum": values} if MINIATURE else {"type": kind}
            given = {"type": "object", "properties": {argument: schema}, "required": [argument]}
            function = {"name": name, "description": description, "parameters": given}
            if values or not MINIATURE:
                offered.append({"type": "function", "function": function})
        return offered

    def call(self, name, arguments):
        """Return a tool's result. Raises TypeError or ValueError for a call that can't be made."""
        given = json.loads(arguments)
        if not isinstance(given, dict):
            raise ValueError("its arguments are no object")
        if name == "search_inbox" and isinstance(given.get("keywords"), str):
            self.hits = search(self.index, given["keywords"], HITS_MAX, self.question)
            self.found.update(self.hits)
            lines = [f"{number}. {self.headed(hit)}" for number, hit in enumerate(self.hits, 1)]
            return "\n".join(lines) or "No mail has all of these words."
        if name == "read_email" and isinstance(given.get("number"), int):
            if not 1 <= given["number"] <= len(self.hits):
                raise ValueError(f"the last list has {len(self.hits)} mails")
            number = self.hits[given["number"] - 1]
            self.read.add(number)
            body = mail_of(self.index, number).body[:BODY_MAX]
            found = sorted(set(re.findall(r"\d[\d:,]*\d|\d|[A-Z]\w+", body)))
            self.candidates = found[:300]
            return f"{self.headed(number)}\n\n{body}"
        if name == "return_final_answer" and isinstance(given.get("answer"), str):
            self.answer = given["answer"]
            return "Thank you."
        raise ValueError("call search_inbox, read_email or return_final_answer with its argument")

    def headed(self, number):
        mail = mail_of(self.index, number)
        return f"{mail.date}, {mail.sender}: {mail.subject}"


async def checks():
    if DATASET and not JUDGE:
        return [f"The answers in {DATASET_QUESTIONS} are sentences: set JUDGE to rule on them."]
    missing = JUDGE and not os.environ.get("OPENAI_API_KEY")
    return [f"The judge {JUDGE} needs a key: set OPENAI_API_KEY."] if missing else []
