"""Sentences are told from lists of words, in any language, by the document alone."""

import json
import random
from functools import cache
from pathlib import Path

import pytest

from bench.attacks import ATTACKS, Source, sources_of
from precis.config import DocumentsConfig
from precis.environments.summaries.prose import prose_share
from precis.records.documents import Document, read_documents
from precis.text import pieces
from tests.support.corpora import BUNDLED

DATA = Path(__file__).parents[3] / "data"
ABSTRACTS = [json.loads(line) for line in (DATA / "abstracts.jsonl").read_text().splitlines()]
"""Summaries in words of their own, as a language model writes them."""
STORIES = json.loads((DATA / "stories.json").read_text())
"""In several languages a text, a summary of it in other words, and what a telegram leaves out."""


@cache
def prose() -> list[Document]:
    """The documents that the judge of prose was tuned on."""
    found: list[Document] = []
    for name in ("prose_tuning", "prose_tuning_2", "prose_tuning_3"):
        found += read_documents(DocumentsConfig(source=str(DATA / f"{name}.parquet")))
    return found


@pytest.mark.parametrize("abstract", ABSTRACTS, ids=lambda one: f"{one['document_id']}")
def test_sentences_in_other_words_are_prose(abstract: dict[str, str]) -> None:
    texts = {document.id: document.text for document in (*BUNDLED, *prose())}
    assert prose_share(abstract["summary"], texts[abstract["document_id"]]) > 0.97


@pytest.fixture(scope="module")
def sources() -> list[Source]:
    """Honest texts of eight documents."""
    return [one for found in sources_of(prose()[::8]).values() for one in found]


@pytest.mark.parametrize(
    ("attack", "most"),
    {
        "5 % of function words dropped": 0.97,
        "10 % dropped": 0.87,
        "25 % dropped": 0.52,
        "50 % dropped": 0.1,
        "all dropped": 0.0,
        "articles dropped": 0.35,
        "25 % dropped, every 7th word wrong": 0.8,
        "sprinkled, 1 of 5": 0.05,
        "48 words behind": 0.75,
        "half a telegraph behind": 0.05,
        "5 words behind each": 0.65,
        "10 words behind each": 0.35,
        "10 mixed words behind each": 0.65,
        "each content word once": 0.0,
        "rows of a table": 0.0,
        "words mixed by 10": 0.3,
        "pairs without vowels": 0.02,
        "pairs glued by x": 0.01,
    }.items(),
)
def test_an_attack_costs_more_than_it_wins(sources: list[Source], attack: str, most: float) -> None:
    shares = [prose_share(ATTACKS[attack](one), one.document.text) for one in sources]
    assert sum(shares) / len(shares) <= most


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_it_knows_prose_in_any_language(story: dict[str, str]) -> None:
    small = frozenset(story["small"].split())
    listed = [word for word in pieces(story["text"]) if word.lower() not in small]
    mixed = random.Random(1).sample(listed, len(listed))
    assert prose_share(story["text"], story["text"]) == 1.0
    assert prose_share(story["summary"], story["text"]) > 0.99
    assert prose_share(" ".join(listed), story["text"]) < 0.01
    assert prose_share(" ".join(mixed), story["text"]) < 0.01


@pytest.mark.parametrize("summary", ["", "?!", "Yes.", "The bridge is open.", "东京"])
def test_what_is_too_short_to_tell_is_prose(summary: str) -> None:
    assert prose_share(summary, prose()[0].text) == 1.0
    assert prose_share(summary, "") == 1.0
