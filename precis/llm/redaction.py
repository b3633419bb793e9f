"""Redaction of a key, or parts of it, in a server's text.

Servers quote keys whole, in JSON's escapes, cut short (`sk-or-v1-4f***`), or by their end ("a key
ending in 35c8"). Short parts are redacted only beside a mask, or after words that announce them.
"""

import base64
import re

import httpx

_PART = 8
"""This many consecutive characters of a key are always redacted."""
_END = 3
"""This many of its first or last characters are redacted beside a mask."""
_CONTEXT = 64
"""How many characters before the first or last part of a key are searched for an announcement."""

# The last characters of a long mask suffice, which bounds the time.
_MASK = r"(?:[*•●·∙#…]|\\u20(?:26|22)|\.\.|___|---|xxx|redacted|hidden|masked)[\])>]? ?"
_SOME = r"[ _]?(?:three|four|five|six|[3-7])(?:[ _](?:characters|chars|digits|letters))?"
_OF_KEY = r"(?:[ _]of[ _](?:the|your)[ _](?:api[ _])?key)?(?:[ _](?:is|are|was))?\W{1,8}"
_BEFORE_LAST = re.compile(
    rf"{_MASK}$|(?<![a-z])(?:end(?:s|ed|ing)?[ _](?:in|with)|suffix|hint|last{_SOME}){_OF_KEY}$",
    re.IGNORECASE,
)
_BEFORE_FIRST = re.compile(
    rf"(?<![a-z])(?:(?:start|begin)(?:s|ed|n?ing)?[ _]with|prefix|first{_SOME}){_OF_KEY}$",
    re.IGNORECASE,
)
_MASK_AFTER = re.compile(rf" ?[\[<(]?{_MASK}", re.IGNORECASE)
_WITHIN_WORD = re.compile(r"(?<!\\)\w$|\\[^nrt]$")
_ESCAPE = re.compile(r"(\\\\)|\\u00([2-7][0-9a-f])", re.IGNORECASE)
_HIDDEN = "…"


class Redactor:
    """Redacts a key, and parts of it, in text.

    Parts are eight characters or more, and the first or last three to seven beside a mask, or after
    words such as "ending in". A key of letters alone, or of fewer than eight characters, is not a
    secret.
    """

    def __init__(self, key: str) -> None:
        self._is_secret = len(key) >= _PART and not key.isalpha()
        self._parts = {key[at : at + _PART] for at in range(len(key) - _PART + 1)}
        # Any redacted part contains one of these: four characters from every fifth position.
        self._signs = {key[at : at + 4] for at in range(0, len(key) - 3, 5)}
        self._signs |= {key[:_END], key[-_END:]}
        lengths = range(_PART - 1, _END - 1, -1)
        first = "|".join(re.escape(key[:length]) for length in lengths)
        last = "|".join(re.escape(key[-length:]) for length in lengths)
        self._first = re.compile(rf"(?:{first})(?:(?={_MASK_AFTER.pattern})|(?!\w))")
        self._last = re.compile(rf"(?:{last})(?!\w)")

    def clean(self, content: bytes) -> bytes:
        """Return the content with `…` for the key and its parts; other bytes are unchanged."""
        text = content.decode("utf-8", "surrogateescape")
        return self._clean(text).encode("utf-8", "surrogateescape")

    def clean_text(self, text: str) -> str:
        """Return the text with `…` for the key and its parts, and `?` for half a character."""
        return self._clean(text).encode("utf-8", "replace").decode()

    def _clean(self, text: str) -> str:
        if not self._is_secret:
            return text
        spelled = _ESCAPE.sub(_letter, text) if "\\u00" in text.lower() else text
        if not any(sign in text or sign in spelled for sign in self._signs):
            return text
        if self._is_in(spelled) and not self._is_in(text):
            text = spelled
        # The text without the long parts.
        hidden = bytearray(len(text))
        for part in self._parts:
            at = text.find(part)
            while at >= 0:
                hidden[at : at + _PART] = b"x" * _PART
                at = text.find(part, at + 1)
        kept: list[str] = []
        end = 0
        for run in re.finditer(b"x+", hidden):
            kept.append(text[end : run.start()])
            end = run.end()
        return self._last.sub(
            _last_hidden, self._first.sub(_first_hidden, _HIDDEN.join([*kept, text[end:]]))
        )

    def _is_in(self, text: str) -> bool:
        return any(part in text for part in self._parts)


def without_credentials(text: str, request: httpx.Request) -> str:
    """Return the answer to a request, with `…` for the request's credentials."""
    scheme, _, sent = request.headers.get("authorization", "").partition(" ")
    secrets = [sent]
    if scheme.lower() == "basic":
        secrets += base64.b64decode(sent).decode("utf-8", "replace").split(":", 1)
    for secret in secrets:
        text = Redactor(secret).clean_text(text)
    return text


def _first_hidden(found: re.Match[str]) -> str:
    """Return a mask if the match is the first characters of a key, else the match."""
    before = found.string[max(0, found.start() - _CONTEXT) : found.start()]
    if _MASK_AFTER.match(found.string, found.end()):
        return found[0] if _WITHIN_WORD.search(before) else _HIDDEN
    return _HIDDEN if _BEFORE_FIRST.search(before) else found[0]


def _last_hidden(found: re.Match[str]) -> str:
    """Return a mask if the match is the last characters of a key, else the match.

    A mask of hyphens may look like a part of the key, so shorter ends are tried too.
    """
    for start in range(found.start(), found.end() - _END + 1):
        before = found.string[max(0, start - _CONTEXT) : start]
        if _BEFORE_LAST.search(before):
            return f"{found.string[found.start() : start]}{_HIDDEN}"
    return found[0]


def _letter(escape: re.Match[str]) -> str:
    r"""Return the letter of an escape such as `\u0041`; a quote stays escaped for JSON."""
    if escape[1] is not None:
        return escape[0]
    letter = chr(int(escape[2], 16))
    return escape[0] if letter in '"\\' else letter
