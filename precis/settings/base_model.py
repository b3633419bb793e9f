"""The name of a base model, as all trainers take it."""

from typing import Annotated

from precis.record import Matching

BaseModelName = Annotated[
    str,
    Matching(
        r"^[A-Za-z0-9._/][A-Za-z0-9._/-]{0,255}$",
        "is OWNER/NAME on the Hub or a folder: letters, digits, dots, dashes, underscores and "
        "slashes, at most 256 in all, with no dash at the beginning",
    ),
]
"""A model on the Hub, or a folder. ART puts it into a shell's command, so it has no character that
a shell knows, and is no option."""
