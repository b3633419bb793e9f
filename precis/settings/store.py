"""The address of a store, as every flow's settings name it."""

from typing import Annotated

from pydantic import AfterValidator

from precis.environment import Variables


def _or_of_the_environment(value: str) -> str:
    return value or Variables().store


StoreUrl = Annotated[str, AfterValidator(_or_of_the_environment)]
"""A folder or s3://bucket/prefix. Empty becomes the variable PRECIS_STORE, or else .precis/store:
a field that may be left out has `Field("", validate_default=True)`."""
