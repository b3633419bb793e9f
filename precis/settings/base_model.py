"""The name of a base model, as all trainers take it."""

from typing import Annotated

from pydantic import Field

BaseModelName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._/][A-Za-z0-9._/-]{0,255}$")]
"""A model on the Hub, or a folder. ART puts it into a shell's command, so it has no character that
a shell knows, and is no option."""
