"""The problems of settings, in words."""

import os
from urllib.parse import urlsplit

from pydantic import ValidationError

_WORDS = {
    "extra_forbidden": "there is no such setting{of_kind}; docs/configuration.md lists them all",
    "model_attributes_type": "Input should be an object with settings by their names",
    "model_type": "Input should be an object with settings by their names",
    "tuple_type": "Input should be a list",
    "union_tag_invalid": "there is no kind '{tag}'; there are {expected_tags}",
    "union_tag_not_found": "its `kind` is missing; docs/configuration.md lists them all",
}
"""Our words for problems by pydantic's type."""
_WITH_KIND = ("environment", "trainer")
"""The settings to whose names pydantic adds their kind: `trainer.art.epsilon`."""
_ALTERNATIVES = ("literal[", "function-after[")
"""The beginnings of parts of names by which pydantic tells the alternatives of a setting apart."""


def problems_in(error: ValidationError) -> list[str]:
    """List the problems: `steps: Input should be …`, or a sentence on settings that contradict each
    other."""
    found = []
    for problem in error.errors(include_url=False):
        if problem["type"] == "default_factory_not_called":
            continue  # another setting is invalid, which is reported too
        names = [name for name in map(str, problem["loc"]) if not name.startswith(_ALTERNATIVES)]
        of_kind = ""
        if len(names) > 1 and names[0] in _WITH_KIND:
            of_kind = f" of kind '{names.pop(1)}'"
        where = ".".join(names)
        if error.title.endswith("Settings"):  # Prefect's, which it reads from variables
            ending, given = f"_{where.upper()}", str(problem["input"])
            for variable, value in os.environ.items():
                if variable.startswith("PREFECT_") and variable.endswith(ending) and value == given:
                    where = variable
        what = problem["msg"].removeprefix("Value error, ")
        if problem["type"] in _WORDS:
            what = _WORDS[problem["type"]].format(of_kind=of_kind, **problem.get("ctx", {}))
        found.append(f"{where}: {what}" if where else what)
    return found


def refuse_password(address: str, name: str, variable: str) -> None:
    """Refuse an address with a password: all users of the Prefect server can read settings."""
    if "@" in urlsplit(address).netloc:
        raise ValueError(f"{name}: the address carries a password; set {variable} instead")


def check_hosted(provider: str, address: str, name: str, variable: str) -> None:
    """Refuse an address of a hosted model that is invalid, has a password, or would get the key of
    another provider."""
    refuse_password(address, name, variable)
    if provider != "url" and address:
        raise ValueError(
            f"{name}: base_url is the address of provider 'url': set provider to url, or leave "
            "base_url empty"
        )
    if provider == "url" and not address.startswith(("http://", "https://")):
        raise ValueError(f"{name}: base_url must start with http:// or https://")
