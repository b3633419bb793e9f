"""The number of a text's words as a reader counts them, however they are joined.

Limits on length are limits on what a reader takes in. Counting what stands between white space
would let a whole document pass as one word, its words joined by `/`, `_`, invisible characters or
nothing at all.
"""

import re
import unicodedata
from collections.abc import Collection, Iterator

WORDS_MAX = 350
"""The longest summary that can earn a reward, in words."""

_INVISIBLE = re.compile(
    # Unicode's Default_Ignorable_Code_Point, and the controls that are no white space.
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
UNDIVIDED = re.compile(
    # Thai and Lao; Burmese; Khmer; the scripts of the Tai; kana and Han, in all their blocks.
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1950-\u19ff\u1a20-\u1aaf\u2e80-\u2fdf\u3005-\u3007"
    "\u3021-\u3029\u3031-\u3035\u303b\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua9e0-\ua9ff\uaa60-\uaadf\uf900-\ufaff\uff66-\uff9f\U0001b000-\U0001b16f"
    "\U00020000-\U0003ffff]+"
)
"""A run of a script that has no spaces between its words."""
# One apostrophe, as in `o'clock`, or a number's separators, as in `1,200,000.50`, part no word.
_PIECE = re.compile(r"[^\W_]+(?:['’][^\W_]+|(?:(?<=\d)[.,:](?=\d)[^\W_]+){1,3})?")
_RUN_MAX = 30
"""Longer runs of letters are hardly ever words (in German, one in thousands)."""
_LETTERS_A_WORD = 5


def count_words(text: str) -> int:
    """Return the number of words, as the 350-word limit counts them.

    A word is a run of letters and digits, once what can't be seen is left out; one of more than
    30 characters counts as many as it would have at five letters each. Text in scripts without
    spaces, such as Japanese, Chinese or Thai, is divided by ICU's dictionaries. Only empty text
    has no words: signs alone are one.
    """
    words = 0
    for piece in pieces(text):
        words += 1 if len(piece) <= _RUN_MAX else -(-len(piece) // _LETTERS_A_WORD)
    return words or int(bool(text.strip()))


def count_glued(text: str, vocabulary: Collection[str]) -> int:
    """Count the words that a text has more if those that join several of a vocabulary's count as
    several: `thefox` where it holds `the` and `fox`, in lower case, but not `thefox`."""
    longest = min(_RUN_MAX, max(map(len, vocabulary), default=0))
    glued = 0
    for piece in pieces(text.lower()):
        if piece not in vocabulary:
            bare = "".join(filter(str.isalnum, piece))
            glued += _parts(bare, vocabulary, longest) - 1
    return glued


def pieces(text: str) -> Iterator[str]:
    """Yield the words of a text, even if joined; those of undivided scripts come last."""
    if text.isascii():
        yield from _PIECE.findall(_INVISIBLE.sub("", text))
        return
    visible = _INVISIBLE.sub("", unicodedata.normalize("NFKC", text))
    divided = UNDIVIDED.sub(" ", visible)
    # Combining marks don't part a word: to `re` they are no letters.
    plain = {}
    for character in set(divided):
        if unicodedata.category(character).startswith("M"):
            plain[ord(character)] = "x"
    yield from _PIECE.findall(divided.translate(plain))
    for run in UNDIVIDED.findall(visible):
        from icu4py.breakers import WordBreaker  # few texts need it, and no GPU's machine has it

        for segment in WordBreaker(run, "en"):
            if any(map(str.isalnum, segment)):
                yield segment


def _parts(piece: str, vocabulary: Collection[str], longest: int) -> int:
    """Return the fewest words of a vocabulary that make up a piece; 1 where they can't."""
    fewest: list[int | None] = [0]
    for end in range(1, len(piece) + 1):
        best: int | None = None
        for start in range(max(0, end - longest), end):
            count = fewest[start]
            if count is None or piece[start:end] not in vocabulary:
                continue
            if best is None or count + 1 < best:
                best = count + 1
        fewest.append(best)
    return fewest[-1] or 1
