"""Redaction of a key, or parts of it, in a server's text, whose JSON may spell it in escapes."""

import base64
import re

import httpx

_PART = 8
"""This many consecutive characters of a key are redacted."""
_ESCAPE = re.compile(r"(\\\\)|\\u00([2-7][0-9a-f])", re.IGNORECASE)
_HIDDEN = "…"


class Redactor:
    """Redacts a key in text, and every part of eight characters or more. A key of letters alone, or
    of fewer than eight characters, is not a secret."""

    def __init__(self, key: str) -> None:
        starts = range(0 if key.isalpha() else len(key) - _PART + 1)
        self._parts = {key[at : at + _PART] for at in starts}

    def clean(self, content: bytes) -> bytes:
        """Return the content with `…` for the key and its parts; other bytes are unchanged."""
        text = content.decode("utf-8", "surrogateescape")
        return self._clean(text).encode("utf-8", "surrogateescape")

    def clean_text(self, text: str) -> str:
        """Return the text with `…` for the key and its parts, and `?` for half a character."""
        return self._clean(text).encode("utf-8", "replace").decode()

    def _clean(self, text: str) -> str:
        if not self._is_in(text):
            text, given = _ESCAPE.sub(_letter, text), text
            if not self._is_in(text):
                return given
        # The text without the parts, which overlap.
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
        return _HIDDEN.join([*kept, text[end:]])

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


def _letter(escape: re.Match[str]) -> str:
    r"""Return the letter of an escape such as `\u0041`; a quote stays escaped for JSON."""
    if escape[1] is not None:
        return escape[0]
    letter = chr(int(escape[2], 16))
    return escape[0] if letter in '"\\' else letter
