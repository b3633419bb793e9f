"""Make the bundled corpus: `python -m tools.corpus.make [path]`.

192 fictional documents over RepLiQA's 17 topics, in RepLiQA's schema, the same bytes on every
run. A story file in `stories/` holds the prose of one scenario, and a topic has several;
`grammar` reads it and `compose` makes a document of it.
"""

import sys
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq

from precis.records.documents import Document
from precis.records.rows import COLUMNS
from tools.corpus.compose import compose
from tools.corpus.grammar import Story, read_stories

PATH = Path(__file__).parents[2] / "precis" / "data" / "fictional.parquet"
"""The bundled corpus."""

DOCUMENTS = 192
_SEED = 20_240_517
_STORIES = Path(__file__).with_name("stories")


def corpus(documents: int = DOCUMENTS, seed: int = _SEED) -> list[Document]:
    """Return the corpus's documents: topics in turn and a topic's stories in turn, then shuffled.

    Args:
        documents: how many to make.
        seed: of everything that is drawn; each document has its own generator, so a
            document does not change when others are added.
    """
    by_topic: dict[str, list[Story]] = {}
    for story in read_stories(_STORIES):
        by_topic.setdefault(story.topic, []).append(story)
    topics = list(by_topic.values())
    made = []
    for number in range(documents):
        turn, topic = divmod(number, len(topics))
        story = topics[topic][turn % len(topics[topic])]
        made.append(compose(story, Random(f"{seed}/{number}")))
    Random(seed).shuffle(made)
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
