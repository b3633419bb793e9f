"""The problems of settings, in words."""

from urllib.parse import urlsplit

from pydantic import ValidationError


def problems_in(error: ValidationError) -> list[str]:
    """List the problems: `steps: Input should be …`, or a sentence on settings that contradict each
    other."""
    found = []
    for problem in error.errors(include_url=False):
        if problem["type"] == "default_factory_not_called":
            continue  # another setting is invalid, which is reported too
        where = ".".join(map(str, problem["loc"]))
        what = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "extra_forbidden":
            what = "there is no such setting; docs/configuration.md lists them all"
        if problem["type"] == "tuple_type":
            what = "Input should be a list"
        if problem["type"] == "model_type":
            what = "Input should be an object with settings by their names"
        found.append(f"{where}: {what}" if where else what)
    return found


def refuse_password(address: str, name: str, variable: str) -> None:
    """Refuse an address with a password: all users of the Prefect server can read settings."""
    if "@" in urlsplit(address).netloc:
        raise ValueError(f"{name}: the address carries a password; set {variable} instead")


def check_hosted(provider: str, address: str, name: str, variable: str) -> None:
    """Refuse an invalid address of a hosted model, or one with a password."""
    if provider == "url" and not address.startswith(("http://", "https://")):
        raise ValueError(
            f"{name} has provider 'url': its base_url must start with http:// or https://"
        )
    refuse_password(address, name, variable)
