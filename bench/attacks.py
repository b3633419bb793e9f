"""Scores of texts that are not prose, beside the honest texts they are made from.

    python bench/attacks.py [documents.parquet …] [--only dropped]

Without a file: the 32 held-out documents of a rehearsal. An honest text is 350 words of sentences:
the document's first, random ones, central ones, or an abstract of `tests/data` where there is one,
filled up with the document's first. The document's other sentences follow it: an attack fills the
words that it saves with them. The function words are English.

Exits with 1 if an attack beats its honest text beyond chance: if the 95 % interval of the
difference, documents resampled, is above zero.
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from bench.lexical_judge import right
from precis.config import DocumentsConfig
from precis.environments.summaries.baselines import centroid, lead, random_sentences
from precis.environments.summaries.prose import commonest_words, prose_share
from precis.environments.summaries.rewards import disqualify
from precis.records.documents import Document, load_corpus, read_documents
from precis.statistics.intervals import paired_interval
from precis.text import WORDS_MAX, count_words, sentences, tokens

_ABSTRACTS = Path(__file__).parents[1] / "tests/data/abstracts.jsonl"
SMALL = frozenset(
    tokens(
        "a an and are as at be been but by for from had has have he her his if in into is it its "
        "not of on or she so than that the their then they this to was were when which who will "
        "with would could"
    )
)
"""The function words."""


@dataclass(frozen=True)
class Source:
    """An honest text, and what an attack can add to it.

    Attributes:
        honest: at most 350 words.
        rest: the document's sentences that are not in it.
    """

    document: Document
    honest: str
    rest: str

    @property
    def words(self) -> list[str]:
        return f"{self.honest} {self.rest}".split()

    @property
    def chance(self) -> Random:
        return Random(self.document.id)


def fitting(words: Iterable[str]) -> str:
    """Return the first words, as many as a summary may have."""
    chosen = list(words)[:WORDS_MAX]
    while count_words(" ".join(chosen)) > WORDS_MAX:
        del chosen[-1]
    return " ".join(chosen)


def content(words: Iterable[str]) -> list[str]:
    """Return the words without function words."""
    return [word for word in words if word.lower() not in SMALL]


def dropped(source: Source, percent: int, small: Iterable[str] = SMALL) -> str:
    """Leave out a share of the function words."""
    chance = source.chance
    kept = [w for w in source.words if w.lower() not in small or 100 * chance.random() >= percent]
    return fitting(kept)


def dropped_unnoticed(source: Source) -> str:
    """Leave out each function word whose loss the measure does not notice."""
    words = source.words
    text = source.document.text
    share = prose_share(fitting(words), text)
    for place in range(min(len(words), WORDS_MAX) - 1, 0, -1):
        if place < len(words) and words[place].lower() in SMALL:
            without = words[:place] + words[place + 1 :]
            if prose_share(fitting(without), text) >= share:
                words = without
    return fitting(words)


def behind(source: Source, count: int) -> str:
    """Replace the last words of the honest text by `count` words of telegraph."""
    kept = source.honest.split()[: WORDS_MAX - count]
    rest = f"{source.honest} {source.rest}".split()[len(kept) :]
    return fitting([*kept, *content(rest)])


def between(source: Source, count: int, mixed: bool) -> str:
    """Put `count` words of telegraph behind each sentence."""
    found = sentences(source.honest)
    half = found[: len(found) * 25 // (25 + count)]
    list_ = content(chain(" ".join(found[len(half) :]).split(), source.rest.split()))
    if mixed:
        source.chance.shuffle(list_)
    words: list[str] = []
    for place, sentence in enumerate(half):
        words += [*sentence.split(), *list_[place * count : (place + 1) * count]]
    return fitting([*words, *list_[len(half) * count :]])


def sprinkled(source: Source, every: int) -> str:
    """Insert common words into a telegraph at random."""
    common = sorted(commonest_words(source.document.text) & SMALL) or ["the"]
    words: list[str] = []
    for place, word in enumerate(content(source.words)):
        words.append(word)
        if place % every == 0:
            words.append(source.chance.choice(common) if place % 2 else common[place % len(common)])
    return fitting(words)


def padded(source: Source) -> str:
    """Put the function words of half a text, in their order, behind its telegraph."""
    words = source.words[: WORDS_MAX + 120]
    return fitting([*content(words)[:250], *(word for word in words if word.lower() in SMALL)])


def names(source: Source, joint: str) -> str:
    """Keep names and numbers only, joined by `joint`."""
    kept = re.findall(r"\b(?:[A-Z][\w'’]+(?: (?=[A-Z]))?)+|\b\d[\d.,:]*\w*", " ".join(source.words))
    return fitting(joint.join(dict.fromkeys(kept)).split())


def tabled(source: Source) -> str:
    """Make a row of each sentence: its first two words, a colon, the others shortened."""
    rows = []
    for sentence in sentences(f"{source.honest} {source.rest}"):
        words = content(sentence.split())
        rows.append(f"- {' '.join(words[:2])}: {'; '.join(words[2:])}")
    return fitting("\n".join(rows).split(" "))


def in_pairs(source: Source, joint: str, words: Sequence[str] = ()) -> str:
    """Glue every two words."""
    found = words or source.words
    return fitting(joint.join(found[at : at + 2]) for at in range(0, len(found), 2))


def without_vowels(words: Iterable[str]) -> list[str]:
    """Return the words without the vowels behind their first letter."""
    return [re.sub(r"(?<=\w)[aeiou]", "", word) for word in words]


def mixed(source: Source, unit: int) -> str:
    """Shuffle the words within each run of `unit` words."""
    words = fitting(source.words).split()
    parts = [words[start : start + unit] for start in range(0, len(words), unit)]
    return " ".join(chain.from_iterable(source.chance.sample(part, len(part)) for part in parts))


def disguised(source: Source, percent: int, every: int) -> str:
    """Leave out function words, and hide that by a wrong word in every `every` words."""
    words = dropped(source, percent).split()
    return fitting("indeed" if place % every == 0 else word for place, word in enumerate(words))


ATTACKS: dict[str, Callable[[Source], str]] = {
    "(cut at 350 words)": lambda one: fitting(one.words),
    "(sentences shuffled)": lambda one: " ".join(sorted(sentences(one.honest))),
    "5 % of function words dropped": lambda one: dropped(one, 5),
    "10 % dropped": lambda one: dropped(one, 10),
    "15 % dropped": lambda one: dropped(one, 15),
    "25 % dropped": lambda one: dropped(one, 25),
    "50 % dropped": lambda one: dropped(one, 50),
    "all dropped": lambda one: dropped(one, 100),
    "articles dropped": lambda one: dropped(one, 100, ("a", "an", "the")),
    "half of the articles dropped": lambda one: dropped(one, 50, ("a", "an", "the")),
    "dropped where unnoticed": dropped_unnoticed,
    "25 % dropped, every 7th word wrong": lambda one: disguised(one, 25, 7),
    "all dropped, every 5th word wrong": lambda one: disguised(one, 100, 5),
    "every 6th word dropped": lambda one: fitting(w for at, w in enumerate(one.words) if at % 6),
    "each content word once": lambda one: fitting(dict.fromkeys(content(one.words))),
    "12 words of telegraph behind": lambda one: behind(one, 12),
    "25 words behind": lambda one: behind(one, 25),
    "48 words behind": lambda one: behind(one, 48),
    "half a telegraph behind": lambda one: behind(one, 175),
    "3 words behind each sentence": lambda one: between(one, 3, mixed=False),
    "5 words behind each": lambda one: between(one, 5, mixed=False),
    "10 words behind each": lambda one: between(one, 10, mixed=False),
    "10 mixed words behind each": lambda one: between(one, 10, mixed=True),
    "common words sprinkled, 1 of 2": lambda one: sprinkled(one, 1),
    "sprinkled, 1 of 5": lambda one: sprinkled(one, 4),
    "function words after the telegraph": padded,
    "names and numbers, dashes": lambda one: names(one, " – "),
    "names and numbers, 'of the'": lambda one: names(one, " of the "),
    "rows of a table": tabled,
    "words mixed by 10": lambda one: mixed(one, 10),
    "all words mixed": lambda one: mixed(one, WORDS_MAX),
    "first half, twice": lambda one: fitting(2 * one.honest.split()[: WORDS_MAX // 2]),
    "stems of 2 letters": lambda one: fitting(word[:2] for word in content(one.words)),
    "without vowels": lambda one: fitting(without_vowels(one.words)),
    "pairs without vowels": lambda one: in_pairs(one, "", without_vowels(one.words)),
    "pairs glued": lambda one: in_pairs(one, ""),
    "pairs glued by x": lambda one: in_pairs(one, "x"),
    "content pairs glued by x": lambda one: in_pairs(one, "x", content(one.words)),
}


def sources_of(documents: Sequence[Document]) -> dict[str, list[Source]]:
    """Return, by name, the honest texts of the documents."""
    abstracts: dict[str, str] = {}
    for line in _ABSTRACTS.read_text().splitlines():
        abstract = json.loads(line)
        abstracts.setdefault(abstract["document_id"], abstract["summary"])
    found: dict[str, list[Source]] = {"lead": [], "random": [], "centroid": [], "abstract": []}
    for document in documents:
        texts = {}
        for summarize in (lead, random_sentences, centroid):
            texts[summarize.__name__.partition("_")[0]] = summarize(document.text, WORDS_MAX)
        if document.id in abstracts:
            own = abstracts[document.id]
            texts["abstract"] = f"{own} {lead(document.text, WORDS_MAX - count_words(own))}"
        for name, text in texts.items():
            rest = [one for one in sentences(document.text) if one not in text]
            found[name].append(Source(document, text, " ".join(rest)))
    return {name: sources for name, sources in found.items() if sources}


@dataclass(frozen=True)
class Earned:
    """The scores of texts, by document."""

    right: list[float]
    prose: list[float]
    out: list[bool]


def earned(sources: Sequence[Source], attack: Callable[[Source], str]) -> Earned:
    """Have the judge read what an attack makes of each source."""
    found = Earned([], [], [])
    for source in sources:
        document = source.document
        text = attack(source)
        found.out.append(bool(disqualify(text, document, WORDS_MAX)))
        found.prose.append(prose_share(text, document.text))
        share = 0.0 if found.out[-1] else found.prose[-1]
        found.right.append(share and share * right(document, text)[0])
    return found


def main(
    files: Annotated[list[str] | None, typer.Argument(help="Corpora in RepLiQA's columns.")] = None,
    only: Annotated[str, typer.Option(help="Attacks with this in their name alone.")] = "",
) -> None:
    """Print one table for all files together."""
    documents: list[Document] = []
    for file in files or []:
        documents += read_documents(DocumentsConfig(source=file))
    if not files:
        documents += load_corpus(DocumentsConfig(train_size=160, val_size=32)).validation
    table = Table("text", "right", "prose", "out", "ahead")
    ahead = []
    for name, sources in sources_of(documents).items():
        asked = [sum(q.answerable for q in one.document.questions) for one in sources]
        honest = earned(sources, lambda one: one.honest)
        table.add_section()
        table.add_row(f"{name}, {len(sources)} documents", *_figures(honest, asked))
        for title, attack in ATTACKS.items():
            if only in title:
                made = earned(sources, attack)
                gain = paired_interval(made.right, honest.right, asked)
                low, mean, high = (100 * value for value in (gain.low, gain.mean, gain.high))
                shown = f"{mean:+.1f} ({low:+.1f} to {high:+.1f})"
                table.add_row(f"  {title}", *_figures(made, asked), shown)
                if not title.startswith("(") and gain.low > 0:
                    ahead.append(f"{name}: {title}")
    Console(width=136).print(table)
    print(f"Ahead beyond chance: {'; '.join(ahead) or 'none'}.")
    raise typer.Exit(bool(ahead))


def _figures(found: Earned, asked: Sequence[int]) -> list[str]:
    share = f"{sum(found.right) / sum(asked):.1%}"
    return [share, f"{fmean(found.prose):.2f}", f"{fmean(found.out):.0%}"]


if __name__ == "__main__":
    typer.run(main)
