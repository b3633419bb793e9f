"""Make the bundled corpus: `python -m tools.corpus.make [path]`.

192 fictional documents over RepLiQA's 17 topics, in RepLiQA's schema, the same bytes on every
run. A story file in `stories/` holds the prose of one scenario, and a topic has several;
`grammar` reads it.
"""

import string
import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq

from precis.records.documents import UNANSWERABLE, Document, Question
from precis.records.rows import COLUMNS
from tools.corpus.grammar import Draw, FactTemplate, Story, read_stories

PATH = Path(__file__).parents[2] / "precis" / "data" / "fictional.parquet"
"""The bundled corpus."""
_STORIES = Path(__file__).with_name("stories")
_DOCUMENTS = 192
_SEED = 20_240_517
_QUESTIONS = 5
_WORDS_MIN = 620
_WORDS_MAX = 1030
_UNANSWERABLE = (0, 1, 1, 1, 2)
"""The number of a document's questions that it does not answer: one in five on average."""
_UNASKED = (2, 3, 3, 4)
_HEADED_SHARE = 0.45
_ASIDES = 9


def compose(story: Story, rng: Random) -> Document:
    """Return a document of one story's topic, with as many questions as RepLiQA asks."""
    draw = Draw(rng, story.names)
    facts = rng.sample(story.facts, len(story.facts))
    unanswerable = rng.choice(_UNANSWERABLE)
    told = facts[: _QUESTIONS - unanswerable]
    rest = facts[_QUESTIONS - unanswerable :]
    asked = [_tell(fact, draw, rng) for fact in told]
    unasked = [_tell(fact, draw, rng) for fact in rest[: rng.choice(_UNASKED)]]
    # Questions that fit the topic but that the document is silent about.
    foreign = [rng.choice(fact.questions) for fact in rest[max(_UNASKED) :][:1]]
    missing = []
    for question in rng.sample([*story.sections["absent"], *foreign], unanswerable):
        text = draw.tell(question, {})
        missing.append(Question("", text, UNANSWERABLE, False, UNANSWERABLE))
    text = _text(story, [one.long_answer for one in asked + unasked], draw, rng)
    drawn = rng.sample([*asked, *missing], _QUESTIONS)
    id = "".join(rng.choices(string.ascii_lowercase, k=8))
    questions = []
    for number, one in enumerate(drawn, start=1):
        questions.append(replace(one, id=f"{id}-q{number}"))
    return Document(id, story.topic, text, tuple(questions))


def _tell(fact: FactTemplate, draw: Draw, rng: Random) -> Question:
    """Return a question about a fact, with a sentence that states it."""
    own = draw.own_values(fact)
    sentence = draw.tell(rng.choice(fact.tellings), own)
    question = draw.tell(rng.choice(fact.questions), own)
    return Question("", question, draw.tell(fact.answer, own).strip("“”"), True, sentence)


def _text(story: Story, facts: list[str], draw: Draw, rng: Random) -> str:
    """Title and paragraphs; facts and background fall anywhere between the passages."""

    def one(section: str) -> str:
        return draw.tell(rng.choice(story.sections[section]), {})

    opening = one("openings")
    closing = one("closings")
    # The story's own filler and asides that any story may have, in turn by chance.
    lines = [*_shuffle(story, "filler", rng), *_shuffle(story, "asides", rng)[:_ASIDES]]
    passages = [draw.tell(line, {}) for line in rng.sample(lines, len(lines))]
    details = [draw.tell(line, {}) for line in _shuffle(story, "background", rng)]
    loose = [*facts, *details[: rng.randint(5, len(details))]]
    room = rng.randint(_WORDS_MIN, _WORDS_MAX) - _length(" ".join([opening, closing, *loose]))
    kept: list[str] = []
    for passage in passages:
        if room <= 0 and len(kept) >= 4:
            break
        kept.append(passage)
        room -= _length(passage)
    paragraphs = _paragraphs([opening, *kept, closing], loose, rng)
    headings = list(story.sections["headings"]) if rng.random() < _HEADED_SHARE else []
    headed = [one("titles")]
    for place, paragraph in enumerate(paragraphs):
        # Before about every third paragraph, in the story's order.
        if place % 3 == 1 and headings and place < len(paragraphs) - 1:
            headed.append(headings.pop(0))
        headed.append(paragraph)
    return "\n\n".join(headed)


def _length(text: str) -> int:
    """Count the words between white space: however words are counted, the corpus stays the same."""
    return len(text.split())


def _paragraphs(passages: list[str], loose: list[str], rng: Random) -> list[str]:
    """Scatter single sentences before and after the passages, crowding some of them.

    Every document crowds other paragraphs, so over the corpus no position is favoured.
    """
    crowding = [rng.random() ** 2 + 0.05 for _ in passages]
    before: list[list[str]] = [[] for _ in passages]
    after: list[list[str]] = [[] for _ in passages]
    for sentence in rng.sample(loose, len(loose)):
        place = rng.choices(range(len(passages)), crowding)[0]
        last = place == len(passages) - 1
        first = place == 0
        side = after if first or (not last and rng.random() < 0.6) else before
        side[place].append(sentence)
    whole = []
    for place, passage in enumerate(passages):
        whole.append(" ".join([*before[place], passage, *after[place]]))
    # Some neighbours run together, so that paragraphs differ in length as an author's do.
    joined = [whole[0]]
    for paragraph in whole[1:-1]:
        if rng.random() < 0.25 and _length(joined[-1] + paragraph) < 150:
            joined[-1] += " " + paragraph
        else:
            joined.append(paragraph)
    return [*joined, whole[-1]]


def _shuffle(story: Story, section: str, rng: Random) -> list[str]:
    lines = story.sections[section]
    return rng.sample(lines, len(lines))


def corpus() -> list[Document]:
    """Return the corpus's documents: topics in turn and a topic's stories in turn, then shuffled.

    Each document has its own generator, so it does not change when others are added.
    """
    by_topic: dict[str, list[Story]] = {}
    for story in read_stories(_STORIES):
        by_topic.setdefault(story.topic, []).append(story)
    topics = list(by_topic.values())
    made = []
    for number in range(_DOCUMENTS):
        turn, topic = divmod(number, len(topics))
        story = topics[topic][turn % len(topics[topic])]
        made.append(compose(story, Random(f"{_SEED}/{number}")))
    Random(_SEED).shuffle(made)
    return made


def table(documents: list[Document]) -> pa.Table:
    """Return the documents as a table in RepLiQA's schema, one row a question."""
    rows = []
    for document in documents:
        of_document = (document.id, document.topic, f"fictional/{document.id}.pdf", document.text)
        for asked in document.questions:
            rows.append((*of_document, asked.id, asked.text, asked.answer, asked.long_answer))
    return pa.table(list(map(list, zip(*rows, strict=True))), names=list(COLUMNS))


def write(path: Path) -> None:
    """Write the corpus as parquet; the bytes depend on nothing but pyarrow's version."""
    pq.write_table(table(corpus()), path, version="2.6", compression="zstd", compression_level=9)


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else PATH)
