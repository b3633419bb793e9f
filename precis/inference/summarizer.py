"""A model that summarizes texts of any length."""

import json
import logging
import math
import textwrap
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain

from precis.config import RateLimits
from precis.environments.summaries.prompt import summary_messages, summary_tokens_max
from precis.errors import ConfigError, ModelError, ProviderError, ProviderFailed
from precis.inference.texts import Text
from precis.llm.client import ChatClient, ChatReply, CompletionRequest, OwnServer
from precis.llm.concurrency import run_for_each
from precis.llm.retry import Deadline
from precis.llm.tokens import (
    BYTES_PER_TOKEN_MIN,
    estimate_most_tokens,
    estimate_tokens_with_margin,
)
from precis.records.spend import Usage
from precis.text import count_words, sentences

SETTINGS = OwnServer(RateLimits(in_flight=8), call_timeout_s=180, tries_max=3, backoff_s=1.0)
_TIMEOUT_S = 600.0
"""For one summary with all its attempts."""


async def summarize_text(summarizer: "Summarizer", text: Text, words_max: int) -> tuple[str, int]:
    """Return the summary of a text of any length, and its number of parts. If the text exceeds the
    context, the summaries of its parts are summarized together. Raises ModelError if there is no
    summary; the message says why."""
    room = room_for_text(summarizer.context_tokens, words_max)
    read = text.prose if summarizer.picks_sentences else text.text
    first = parts = split(read, room)
    while True:
        summaries = await run_for_each(partial(summarizer.write, words_max=words_max), parts)
        if len(parts) == 1:
            return summaries[0], len(first)
        together = split("\n\n".join(summaries), room)
        is_shorter = len("".join(together)) <= 0.9 * len("".join(parts))
        if len(together) >= len(parts) and not is_shorter:
            raise ModelError("The summaries of its parts do not get shorter.", "Raise --context.")
        parts = together


def room_for_text(context_tokens: float, words_max: int) -> float:
    """Return the tokens of a request left for the document. Raises ConfigError if there are too
    few."""
    prompt = sum(estimate_most_tokens(one["content"]) for one in summary_messages("", words_max))
    room = context_tokens - prompt - summary_tokens_max(words_max)
    if room < 2 * words_max:
        raise ConfigError(
            f"A context of {context_tokens} tokens has no room for a document beside a summary of "
            f"{words_max} words.",
            "Raise --context, or lower --words.",
        )
    return room


class Summarizer:
    """A model behind an OpenAI-compatible server, asked by a client with these `SETTINGS`.

    Args:
        context_tokens: its context, prompt and summary included.
        picks_sentences: whether a summary consists of the text's own sentences.
    """

    def __init__(self, client: ChatClient, context_tokens: float, picks_sentences: bool) -> None:
        self.model = client.endpoint.model
        self.context_tokens = context_tokens
        self.picks_sentences = picks_sentences
        self._client = client

    async def write(self, text: str, words_max: int) -> str:
        """Return a summary of at most `words_max` words; of a sentence that is too long for it, a
        part may be picked. Raises ModelError if there is none."""
        if self.picks_sentences:
            cut = [_cut_by_words(sentence, words_max) for sentence in sentences(text)]
            text = "\n".join(chain.from_iterable(cut))
        payload = {
            "model": self.model,
            "messages": summary_messages(text, words_max),
            "temperature": 0.0,
            "max_tokens": summary_tokens_max(words_max),
        }
        prompt_tokens = estimate_tokens_with_margin(len(json.dumps(payload, ensure_ascii=False)))
        expected = Usage(prompt_tokens, summary_tokens_max(words_max))
        request = CompletionRequest(payload, expected)

        def read(reply: ChatReply) -> str:
            if reply.finish == "length":
                if not reply.text.strip():
                    detail = "The tokens of the server all went into its thoughts."
                    raise ProviderFailed("truncated", detail)
                cut = "The summary of %s is cut off at its length limit."
                logging.getLogger(__name__).warning(cut, self.model)
            return reply.text

        try:
            written = await self._client.complete(request, Deadline(_TIMEOUT_S), read)
        except ProviderError as error:
            raise ModelError(str(error)) from error
        if not written.strip():
            raise ModelError(f"{self.model} answered with an empty summary.")
        return written.strip()


def _cut_by_words(sentence: str, words_max: int) -> list[str]:
    """Return a sentence, cut between words if it has more than `words_max`."""
    words = count_words(sentence)
    if words <= words_max:
        return [sentence]
    width = max(1, len(sentence) * words_max // words * 9 // 10)
    cut: list[str] = []
    spaced = " ".join(_words(sentence, width))
    for piece in textwrap.wrap(spaced, width, break_on_hyphens=False):
        cut.extend([piece] if len(piece) == 1 else _cut_by_words(piece, words_max))
    return cut


def split(text: str, tokens_max: float) -> list[str]:
    """Return parts of about equal length, none over `tokens_max`, each made of whole sentences.

    A sentence that is too long by itself, such as a table without line ends, is cut between words.
    """
    total = estimate_most_tokens(text)
    if total <= tokens_max:
        return [text]
    pieces: list[str] = []
    for sentence in sentences(text):
        if estimate_most_tokens(sentence) <= tokens_max:
            pieces.append(sentence)
            continue
        # Scripts without spaces have very long words. No character takes more than four bytes.
        size = max(1, int(tokens_max * BYTES_PER_TOKEN_MIN) // 4)
        pieces += _join(_words(sentence, size), " ", tokens_max)
    return _join(pieces, "\n", tokens_max, wanted=total / math.ceil(total / tokens_max))


def _words(text: str, size: int) -> Iterator[str]:
    """Yield the words of a text, those of more than `size` characters in parts.

    `textwrap` takes time with the square of a long word's length.
    """
    for word in text.split():
        for start in range(0, len(word), size):
            yield word[start : start + size]


def _join(
    pieces: Iterable[str], mark: str, tokens_max: float, wanted: float = math.inf
) -> list[str]:
    """Return parts of `wanted` tokens if possible, and of `tokens_max` at most."""
    parts: list[str] = []
    part = ""
    for piece in pieces:
        longer = f"{part}{mark}{piece}" if part else piece
        if part and estimate_most_tokens(longer) > tokens_max:
            parts.append(part)
            part = piece
        else:
            part = longer
        if estimate_most_tokens(part) >= wanted:
            parts.append(part)
            part = ""
    return [*parts, part] if part else parts
