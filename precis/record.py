"""The common base of all settings and records."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
"""The name of a model or a project, which files and keys are named after; never a path."""
Step = Annotated[int, Field(ge=0, le=1_000_000)]
"""A step of a run, or the checkpoint that it begins with."""
Count = Annotated[int, Field(ge=0, le=2**53)]
"""The number of something; the most that JSON carries exactly."""
BoundedInt = Annotated[int, Field(le=2**53)]
"""Any whole number of a setting: Prefect's server stores those of more than 64 bits, and then can't
list its runs any more. Each setting says what its least is; one that says what its most is, is an
`int` or a `float` with that alone, since of two limits the one here would hold."""
BoundedFloat = Annotated[float, Field(le=2**53)]
"""The same for a number that may be a fraction, and could be given as a whole one."""
Finite = Annotated[float, Field(allow_inf_nan=False)]
"""A figure that JSON can carry."""
Amount = Annotated[float, Field(ge=0, le=1e12)]
"""Dollars, seconds or words."""
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
"""A SHA-256 in hexadecimal."""


class Record(BaseModel):
    """Base of all settings and records: immutable, and closed to keys it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)
