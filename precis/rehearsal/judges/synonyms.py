"""Words of English that often stand for each other."""

from collections import defaultdict
from functools import cache
from importlib.resources import files

from precis.rehearsal.judges.words import stem


@cache
def _table() -> dict[str, frozenset[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    text = (files("precis.rehearsal.judges") / "synonyms.txt").read_text("utf-8")
    for line in text.splitlines():
        if not line.startswith("#"):
            group = set(map(stem, line.split()))
            for word in group:
                found[word] |= group - {word}
    return {word: frozenset(group) for word, group in found.items()}


def synonyms(word: str) -> frozenset[str]:
    """Return the stems that may stand for a stem."""
    return _table().get(word, frozenset())
