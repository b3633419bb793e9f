"""A measure of prose in a summary, relative to its document, in any language.

A judge finds answers in a list of names and numbers too, so a reward by answers alone would favour
leaving out all other words. That shows in three ways:

- The document's commonest words are scarce: a list has next to none of them.
- Its neighbouring words are never neighbours in the document.
- It copies a dozen words of the document and leaves out common ones between them, or four with two
  gaps or more, which newly written sentences hardly ever do.

The first two are measured in every window of 50 words, and both together in windows of ten, so that
a list behind honest sentences shows too; the third over the whole. Each costs more than it saves in
length.
"""

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from statistics import fmean

from precis.text import pieces

_COMMONEST = 25
"""How many of a document's words count as its common words."""
_WINDOW = 50
"""The size of a window, in words."""
_COMMON_SHARE = (0.22, 0.34)
"""The shares of common words, relative to the document's, at which a window counts 0 and 1. In
freely written summaries the lowest window has 0.39; lists of words have 0.23 in the median."""
_TOGETHER = (0.12, 0.25)
"""The same for the share of word pairs that are neighbours in the document too. Free writing has
0.28 at least; lists with common words sprinkled in have 0.2."""
_DROPPED_COMMONEST = 40
"""How many of a document's commonest words count as dropped if a copy continues without them."""
_DROPPED_MAX = 6
"""The most of them dropped in a row; of other words, one."""
_COPIED_MIN = 12
"""The fewest words of a copy. Freely written summaries have at most one such gap in a hundred
words, and two if copies of 8 words count."""
_SHORT_COPY_MIN = 4
_SHORT_COPY_GAPS = 0.4
"""A shorter copy counts with this many words, and this many gaps for each of them. Freely written
summaries have at most one such copy; ten words of telegraph nearly always are one."""
_UNBROKEN_MIN = 6
"""A gap does not count if the document also has this many of the words without it."""
_DROPPED_FREE = 0.005
_DROPPED_COST = 6.0
"""The penalty for each dropped word beyond one in two hundred, in words: more than its length is
worth. A rule-based judge finds 23 % more answers if 7 % of the words are left out."""
_LIST_COST = 2.0
"""The same for words in windows that count 0."""
_SHORT_WINDOW = 10
_SHORT_COMMON_MAX = 1
_SHORT_TOGETHER_MAX = 0.15
"""Ten words in a row are mixed if at most this many are common, and at most this share of their
pairs are neighbours in the document. Pairs with a word not in the document are not counted; five
others must be left."""
_MIXED_FREE = 0.02
_MIXED_COST = 4.0
"""The penalty for the share of mixed short windows beyond 0.02. Freely written summaries have 0.022
at most; those with ten mixed words behind each sentence 0.13."""
_NO_COPY = (0, 0)
_ONE_WORD = (1, 0)
_EXPECTED = 5
"""Pseudo-counts for a window: words with the document's share of common ones, and pairs, two fifths
of them the document's, since a headline is too short to tell."""


@dataclass(frozen=True)
class _Joints:
    """The order of words in a document.

    Attributes:
        common: the commonest words.
        share: the share of all words that these make up.
        words: all words.
        neighbours: the pairs of neighbouring words.
        links: for two words, their places, in order, where the second follows the first, or where a
            copy may have dropped what is between them.
    """

    common: frozenset[str]
    share: float
    words: frozenset[str]
    neighbours: frozenset[tuple[str, str]]
    links: Mapping[tuple[str, str], Sequence[tuple[int, int]]]


@lru_cache(maxsize=512)  # reward and metrics ask about the same summary
def prose_share(summary: str, text: str) -> float:
    """Return how much of a summary is prose, given its document: 1 for sentences, 0 for a list of
    words."""
    words = list(pieces(summary.lower()))
    joints = _joints(text)
    if not words or not joints.words:
        return 1.0
    listed = 1 - fmean(_words(words, joints))
    dropped = _dropped(words, joints) / max(_WINDOW, len(words))
    lost = _LIST_COST * listed
    lost += _DROPPED_COST * max(0.0, dropped - _DROPPED_FREE)
    # The share of short windows with hardly any common words or known neighbours.
    windows = _windows(words, joints, _SHORT_WINDOW)
    mixed = 0
    for common, known, together in windows:
        few = common <= _SHORT_COMMON_MAX and together <= _SHORT_TOGETHER_MAX * known
        mixed += few and known >= _SHORT_WINDOW / 2
    lost += _MIXED_COST * max(0.0, (mixed / max(1, len(windows))) - _MIXED_FREE)
    return max(0.0, 1 - lost)


def commonest_words(text: str) -> frozenset[str]:
    """Return the 25 commonest words of a text, in lower case."""
    return _joints(text).common


def _words(words: Sequence[str], joints: _Joints) -> list[float]:
    """Return for each word how much it is in prose: the mean over its windows."""
    size = min(_WINDOW, len(words))
    windows = [0.0]
    for common, known, together in _windows(words, joints, size):
        share = (common + _EXPECTED * joints.share) / (size + _EXPECTED) / joints.share
        beside = (together + 0.4 * _EXPECTED) / (known + _EXPECTED)
        windows.append(_ramp(share, *_COMMON_SHARE) * _ramp(beside, *_TOGETHER))
    sums = list(accumulate(windows))
    found = []
    for place in range(len(words)):
        first = max(0, place - size + 1)
        last = min(place, len(words) - size) + 1
        found.append((sums[last] - sums[first]) / (last - first))
    return found


def _windows(words: Sequence[str], joints: _Joints, size: int) -> list[tuple[int, int, int]]:
    """Return for each window its common words, pairs of the document's words, and neighbours."""
    common = [0, *accumulate(word in joints.common for word in words)]
    known = [0, *accumulate({one, other} <= joints.words for one, other in pairwise(words))]
    together = [0, *accumulate(pair in joints.neighbours for pair in pairwise(words))]
    found = []
    for start in range(len(words) - size + 1):
        end = start + size
        pairs = known[end - 1] - known[start]
        found.append((common[end] - common[start], pairs, together[end - 1] - together[start]))
    return found


def _dropped(words: Sequence[str], joints: _Joints) -> int:
    """Return how many small words are missing in a summary's copies of its document."""
    before = _copies(words, joints)
    after = _copies(words, joints, backwards=True)
    dropped = 0
    for number, pair in enumerate(pairwise(words)):
        longest, gaps, missing, unbroken = 0, 0, 0, 0
        for place, next_place in joints.links.get(pair, ()):
            length, skipped = before[number].get(place, _ONE_WORD)
            on, skipped_on = after[number + 1].get(next_place, _ONE_WORD)
            if length + on > longest:
                longest, gaps = length + on, skipped + skipped_on
                missing = next_place - place - 1
            if next_place == place + 1:
                unbroken = max(unbroken, length + on)
        if missing and unbroken < _UNBROKEN_MIN:
            dense = longest >= _SHORT_COPY_MIN and gaps + 1 >= _SHORT_COPY_GAPS * longest
            if dense or longest >= _COPIED_MIN:
                dropped += missing
    return dropped


def _copies(
    words: Sequence[str], joints: _Joints, backwards: bool = False
) -> list[dict[int, tuple[int, int]]]:
    """Return for each word, by its places in the document, the longest copy that ends there, or
    begins there if `backwards`: the number of its words and gaps. Copies of the word alone are left
    out. One of a copy's words may differ from the document's.
    """
    found: list[dict[int, tuple[int, int]]] = []
    order = range(len(words) - 1, -1, -1) if backwards else range(len(words))
    for number in order:
        copies: dict[int, tuple[int, int]] = {}
        for away in (2, 1):  # the word before the last, where the last one differs; the last
            other = number + away if backwards else number - away
            if not 0 <= other < len(words):
                continue
            pair = (words[number], words[other])
            links = joints.links.get(pair if backwards else pair[::-1], ())
            for place, next_place in links if backwards else reversed(links):  # small gaps first
                here, there = (place, next_place) if backwards else (next_place, place)
                length, gaps = found[-away].get(there, _ONE_WORD)
                longest = copies.get(here, _NO_COPY)
                if next_place - place <= away:
                    copies[here] = max(longest, (length, gaps))
                elif away == 1 and length > longest[0]:
                    copies[here] = (length, gaps + 1)
        found.append({place: (length + 1, gaps) for place, (length, gaps) in copies.items()})
    return found[::-1] if backwards else found


def _links(
    words: Sequence[str], small: Container[str]
) -> dict[tuple[str, str], list[tuple[int, int]]]:
    """Return the links of a document's words: a copy may drop one of any kind, or small ones."""
    links: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for place, word in enumerate(words):
        for next_place in range(place + 1, min(place + _DROPPED_MAX + 2, len(words))):
            links.setdefault((word, words[next_place]), []).append((place, next_place))
            all_small = words[next_place - 1] in small and words[next_place] in small
            if next_place > place + 1 and not all_small:
                break
    return links


def _ramp(value: float, low: float, high: float) -> float:
    """Return 0 up to `low`, 1 from `high` on, and interpolate between them."""
    return min(1.0, max(0.0, (value - low) / (high - low)))


@lru_cache(maxsize=32)  # for a thousand words some 1 MB
def _joints(text: str) -> _Joints:
    words = list(pieces(text.lower()))
    counts = Counter(words)
    ranked = [word for word, _ in counts.most_common(_DROPPED_COMMONEST)]
    links = _links(words, frozenset(ranked))
    common = frozenset(ranked[:_COMMONEST])
    share = sum(counts[word] for word in common) / max(1, len(words))
    neighbours = frozenset(pairwise(words))
    return _Joints(common, share, frozenset(counts), neighbours, links)
