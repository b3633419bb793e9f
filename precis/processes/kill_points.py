"""Places where a process may die between two things that must not come apart, by name.

The product only says that it got there, which does nothing; the tests that kill processes there
set a hook.

    reached("manifest written", step)
"""

from collections.abc import Callable

_hooks: list[Callable[[str, int | None], None]] = []


def reached(point: str, step: int | None = None) -> None:
    """Say that this process has got to a point.

    Args:
        step: the step or checkpoint that it is about, where it is about one.
    """
    for hook in _hooks:
        hook(point, step)


def on_reaching(hook: Callable[[str, int | None], None]) -> None:
    """Have a hook called with each point that this process gets to from here on."""
    _hooks.append(hook)
