"""The common base of all settings and records; digests of JSON, and lines of it."""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationError,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

T = TypeVar("T")

_OF_PYTHON = {
    "model_type": "Input should be an object",
    "json_type": "Input should be JSON in a text",
}
"""What to say for errors that pydantic words in terms of Python's types."""


@dataclass(frozen=True)
class Matching:
    """The format of a text: `Annotated[str, Matching(r"^[a-z]+$", "has small letters alone")]`.

    The JSON schema has the pattern, for programs; an error has the words.
    """

    pattern: str
    """A regular expression, from `^` to `$`."""
    allowed: str
    """The predicate of a sentence about the text, without a full stop."""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {**handler(schema), "pattern": self.pattern}

    def _check(self, text: str) -> str:
        if not re.fullmatch(self.pattern, text):
            raise PydanticCustomError("text_of_other_form", "{allowed}", {"allowed": self.allowed})
        return text


Name = Annotated[
    str,
    Matching(
        r"^(?!(kept|ceilings)$)[A-Za-z0-9][A-Za-z0-9._-]{0,63}$",
        "may have letters, digits, dots, dashes and underscores, at most 64 in all, begins with a "
        "letter or a digit, and is not kept or ceilings, which are other folders of the store",
    ),
]
"""The name of a model or a project, used in names of files and keys; never a path."""
BaseModelName = Annotated[
    str,
    Matching(
        r"^[A-Za-z0-9._/][A-Za-z0-9._/-]{0,255}$",
        "is OWNER/NAME on the Hub or a folder: letters, digits, dots, dashes, underscores and "
        "slashes, at most 256 in all, with no dash at the beginning",
    ),
]
"""A model on the Hub, or a folder. ART puts it into a shell command, so it has no character that
is special there, and is not an option."""
SEED_MIN = -(2**63)
SEED_MAX = 2**63 - 1
Seed = Annotated[int, Field(ge=SEED_MIN, le=SEED_MAX)]
"""A seed has 64 bits, as torch's have."""
STEPS_MAX = 1_000_000
Step = Annotated[int, Field(ge=0, le=STEPS_MAX)]
"""A step of a run, or the checkpoint it begins with."""
Count = Annotated[int, Field(ge=0, le=2**53)]
"""A count, up to the largest integer that is exact in JSON."""
BoundedInt = Annotated[int, Field(le=2**53)]
"""An integer setting, up to the largest integer that is exact in JSON. Each setting gives its own
least; one with its own most is a plain `int` or `float`, since the limit here would override it."""
BoundedFloat = Annotated[float, Field(le=2**53)]
"""The same for a fractional number, which may be given as an integer."""
Finite = Annotated[float, Field(allow_inf_nan=False)]
"""A number that is valid in JSON."""
Amount = Annotated[float, Field(ge=0, le=1e12)]
"""Dollars, seconds or words."""
Sha256 = Annotated[str, Matching(r"^[0-9a-f]{64}$", "has 64 hexadecimal digits")]
"""A SHA-256 in hexadecimal."""


class Record(BaseModel):
    """Base of all settings and records: immutable, and without unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


def json_digest(value: Any) -> str:
    """Return the SHA-256 of a value as JSON, independent of the order of its keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def read_json_lines(lines: Iterable[str], read: Callable[[int, dict[str, Any]], T]) -> Iterator[T]:
    """Yield the results of `read` for each line's number and JSON object. A ValueError, by `read`
    too, is a sentence that begins with the line's number."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            try:
                found = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"it is not JSON ({error}).") from error
            if not isinstance(found, dict):
                raise ValueError("it is not a JSON object.")
            given = read(number, found)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
        yield given


def first_problem(error: ValidationError) -> str:
    """Return the first problem of a record, and its place."""
    first = error.errors(include_url=False)[0]
    where = ".".join(map(str, first["loc"]))
    said = _OF_PYTHON.get(first["type"], first["msg"])
    return f"{where}: {said}" if where else said
