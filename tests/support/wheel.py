"""What an installation of the wheel alone would not have."""

from importlib.metadata import packages_distributions, requires

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def refused_packages() -> list[str]:
    """Return the modules that are installed here, and that the wheel does not ask for."""
    allowed = _needed_by("precis")
    refused = []
    for module, owners in packages_distributions().items():
        if not allowed & {canonicalize_name(owner) for owner in owners}:
            refused.append(module)
    return sorted(refused)


def _needed_by(distribution: str) -> set[str]:
    """The distribution and all that it needs without its extras, by canonical name."""
    needed: set[str] = set()
    waiting = {(distribution, "")}
    seen: set[tuple[str, str]] = set()
    while waiting:
        name, extra = waiting.pop()
        seen.add((name, extra))
        needed.add(canonicalize_name(name))
        for line in requires(name) or []:
            wanted = Requirement(line)
            if wanted.marker is None or wanted.marker.evaluate({"extra": extra}):
                waiting |= {(wanted.name, each) for each in {"", *wanted.extras}} - seen
    return needed
