"""The prompts for the model that writes questions, and the valid replies to them."""

from dataclasses import dataclass

from precis.environments.summaries.judge.prompts import DATA, judge_messages
from precis.environments.summaries.judge.protocol import (
    BadReply,
    ReplyEntry,
    StrictReply,
    entries_by_id,
    validate_reply,
)
from precis.records.documents import UNANSWERABLE

ANSWERED = 5
"""Questions that the model writes for a document."""
UNANSWERED = 2
"""Further questions, which the document seems to answer but does not."""

IDS = tuple(f"q{number}" for number in range(1, ANSWERED + UNANSWERED + 1))
"""The ids of the questions, in order."""

_SYSTEM = f"""\
You write questions about a text, to find out later what a summary of it has kept.

{DATA}

`text` is the text. Write {ANSWERED} questions, q1 to q{ANSWERED}, that it answers: about facts that
matter in it, each about another one, from its beginning to its end. A question has to be clear to
somebody who has not seen the text and knows nothing else: it names whom and what it is about, and
it can't be answered by general knowledge or by a guess. `answer` is one short sentence or less,
`passage` the sentence of the text that says so, word for word.

Then write {UNANSWERED} questions, q{ANSWERED + 1} to q{ANSWERED + UNANSWERED}, that are about the
same subject and that the text does not answer, though a reader would expect it to. Their `answer`
is exactly "{UNANSWERABLE}", and their `passage` is empty.

Write in the language of the text. Reply with one JSON object and nothing else:
{{"questions": [{{"id": "q1", "question": "...", "answer": "...", "passage": "..."}}]}}"""


@dataclass(frozen=True)
class WrittenQuestion:
    """A question written by the model, with the passage of its answer."""

    question: str
    answer: str
    passage: str
    answerable: bool


class _QuestionEntry(ReplyEntry):
    question: str
    answer: str
    passage: str


class Questions(StrictReply):
    """The model's reply."""

    questions: list[_QuestionEntry]


def question_messages(text: str) -> list[dict[str, str]]:
    return judge_messages(_SYSTEM, {"text": text})


def parse_questions(reply: str) -> list[WrittenQuestion]:
    """Return the questions in the order of `IDS`. Raises BadReply for any other reply."""
    entries = entries_by_id(validate_reply(reply, Questions).questions, IDS)
    answered = [_read_entry(entries[id], answerable=True) for id in IDS[:ANSWERED]]
    unanswered = [_read_entry(entries[id], answerable=False) for id in IDS[ANSWERED:]]
    return answered + unanswered


def _read_entry(entry: _QuestionEntry, *, answerable: bool) -> WrittenQuestion:
    question = _on_one_line(entry.question)
    answer = _on_one_line(entry.answer)
    if not question or not answer:
        raise BadReply(f"{entry.id} has no question or no answer.")
    passage = _on_one_line(entry.passage)
    return WrittenQuestion(question, answer if answerable else UNANSWERABLE, passage, answerable)


def _on_one_line(text: str) -> str:
    return " ".join(text.split())
