"""What is made while the documentation is built: the configuration reference, from the models."""

from typing import Any

from tools.reference import reference

MARKER = "<!-- configuration -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the reference where a page has the marker."""
    return markdown.replace(MARKER, reference())
