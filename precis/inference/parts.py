"""Splitting what is longer than a model reads at once."""

import math

from precis.llm.tokens import BYTES_PER_TOKEN_MIN, estimate_most_tokens
from precis.text import sentences


def split(text: str, tokens_max: int) -> list[str]:
    """Parts of about equal length, none over `tokens_max`, each made of whole sentences.

    A sentence that is too long by itself, such as a table without line ends, is cut between words.
    """
    total = estimate_most_tokens(text)
    if total <= tokens_max:
        return [text]
    wanted = total / math.ceil(total / tokens_max)
    parts: list[str] = []
    part = ""
    pieces: list[str] = []
    for sentence in sentences(text):
        is_short = estimate_most_tokens(sentence) <= tokens_max
        pieces += [sentence] if is_short else _cut(sentence, tokens_max)
    for sentence in pieces:
        longer = f"{part}\n{sentence}" if part else sentence
        if part and estimate_most_tokens(longer) > tokens_max:
            parts.append(part)
            part = sentence
        else:
            part = longer
        if estimate_most_tokens(part) >= wanted:
            parts.append(part)
            part = ""
    return [*parts, part] if part else parts


def _cut(sentence: str, tokens_max: int) -> list[str]:
    """Return a sentence in pieces that fit: scripts without spaces have very long words."""
    size = max(1, tokens_max * BYTES_PER_TOKEN_MIN // 4)  # no character takes more than four bytes
    pieces: list[str] = []
    piece = ""
    for word in sentence.split():
        for start in range(0, len(word), size):
            chunk = word[start : start + size]
            longer = f"{piece} {chunk}" if piece else chunk
            if estimate_most_tokens(longer) > tokens_max:
                pieces.append(piece)
                piece = chunk
            else:
                piece = longer
    return [*pieces, piece] if piece else pieces
