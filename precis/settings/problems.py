"""The problems of settings, in words."""

from pydantic import ValidationError


def problems_in(error: ValidationError) -> list[str]:
    """List what is wrong: `steps: Input should be …`, or the sentence of settings that disagree."""
    found = []
    for problem in error.errors(include_url=False):
        if problem["type"] == "default_factory_not_called":
            continue  # another setting is wrong, which is said too
        where = ".".join(map(str, problem["loc"]))
        what = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "extra_forbidden":
            what = "there is no such setting; docs/configuration.md lists them all"
        found.append(f"{where}: {what}" if where else what)
    return found
