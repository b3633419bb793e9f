"""How far a summary is prose, by its own document and in any language.

A judge finds answers in a list of names and numbers as well as in sentences, so a reward by
answers alone pays for leaving out all other words. What is left out shows in three ways, none of
which needs a list of a language's words: the document itself says which words hold it together.

- Its commonest words are scarce: a list has next to none of them.
- Its words stand side by side as they never do in it, because they were mixed or sprinkled.
- Its words stand side by side that have only its commonest words between them there: these were
  dropped. Sentences in words of one's own hardly ever do that.

The first two are measured in every window of the summary, so that a list behind honest sentences
shows too; the third over all of it.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from statistics import fmean

from precis.words import pieces

_COMMONEST = 25
"""How many of a document's words are taken for those that hold it together."""
_WINDOW = 50
"""Words that are looked at together."""
_COMMON_SHARE = (0.22, 0.34)
"""The share of common words, relative to the document's, at which a window counts for nothing and
in full. In summaries in words of their own the scarcest window has 0.39; lists of words have 0.23
in the median."""
_TOGETHER = (0.12, 0.25)
"""The same for the neighbours that the document has too, of pairs of its words. Words of one's own
come to 0.28 at least; sentences with common words sprinkled among the others to 0.2."""
_DROPPED = (0.06, 0.14)
"""The share of neighbours that common words have been dropped between, at which a summary keeps
all and nothing. Words of one's own come to 0.04 at most; 0.1 where every fourth of 45 function
words is left out."""
_DROPPED_MAX = 3
"""Common words in a row that count as dropped: `out of the`."""
_EXPECTED = 5
"""Words that are added to those of a window, as many of them common as in the document, and pairs,
two fifths of them the document's: a headline says little of what it is."""


@dataclass(frozen=True)
class _Joints:
    """How a document joins its words.

    Attributes:
        common: the commonest of them.
        share: the share of all words that these make up.
        neighbours: the pairs that stand side by side somewhere.
        parted: those that never do, and have nothing but common words between them somewhere.
    """

    words: frozenset[str]
    common: frozenset[str]
    share: float
    neighbours: frozenset[tuple[str, str]]
    parted: frozenset[tuple[str, str]]


def prose_share(summary: str, text: str) -> float:
    """Return how far a summary is prose: 1 for sentences, 0 for a list of words.

    Args:
        text: of the document that it is a summary of.
    """
    words = list(pieces(summary.lower()))
    joints = _joints(text)
    if not words or not joints.words:
        return 1.0
    known = [{one, other} <= joints.words for one, other in pairwise(words)]
    together = [pair in joints.neighbours for pair in pairwise(words)]
    dropped = sum(pair in joints.parted for pair in pairwise(words))
    windows = _windows([word in joints.common for word in words], known, together, joints.share)
    low, high = _DROPPED
    return fmean(windows) * (1 - _ramp(dropped / max(_WINDOW, sum(known)), low, high))


def commonest_words(text: str) -> frozenset[str]:
    """Return the words of a text, in lower case, that hold it together: its 25 commonest."""
    return _joints(text).common


def _windows(
    common: Sequence[bool], known: Sequence[bool], together: Sequence[bool], expected: float
) -> list[float]:
    """Return for each window how far it is prose.

    Args:
        common: for each word whether it is one of the document's commonest.
        known: for each pair of neighbours whether both are the document's.
        together: for each pair whether the document has it too.
        expected: the share of common words in the document.
    """
    size = min(_WINDOW, len(common))
    commons = [0, *accumulate(common)]
    pairs = [0, *accumulate(known)]
    shared = [0, *accumulate(together)]
    found = []
    for start in range(len(common) - size + 1):
        end = start + size
        own = commons[end] - commons[start] + _EXPECTED * expected
        share = own / (size + _EXPECTED) / expected
        hits = shared[end - 1] - shared[start] + 0.4 * _EXPECTED
        whole = pairs[end - 1] - pairs[start] + _EXPECTED
        found.append(_ramp(share, *_COMMON_SHARE) * _ramp(hits / whole, *_TOGETHER))
    return found


def _ramp(value: float, low: float, high: float) -> float:
    """Return 0 up to `low`, 1 from `high` on, and what lies between in proportion."""
    return min(1.0, max(0.0, (value - low) / (high - low)))


@lru_cache(maxsize=512)
def _joints(text: str) -> _Joints:
    words = list(pieces(text.lower()))
    counts = Counter(words)
    common = frozenset(word for word, _ in counts.most_common(_COMMONEST))
    neighbours = frozenset(pairwise(words))
    parted = set()
    for place, word in enumerate(words):
        for end in range(place + 2, place + 2 + _DROPPED_MAX):
            if end >= len(words) or words[end - 1] not in common:
                break
            parted.add((word, words[end]))
    share = sum(counts[word] for word in common) / max(1, len(words))
    return _Joints(frozenset(words), common, share, neighbours, frozenset(parted - neighbours))
