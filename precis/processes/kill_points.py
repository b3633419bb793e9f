"""Named points between two operations at which a process may die.

Reaching one does nothing; tests that kill processes there set a hook.

    reached("manifest written", step)
"""

from collections.abc import Callable

_hooks: list[Callable[[str, int | None], None]] = []


def reached(point: str, step: int | None = None) -> None:
    """Report that this process has reached a point, of a step or a checkpoint if it has one."""
    for hook in _hooks:
        hook(point, step)


def on_reaching(hook: Callable[[str, int | None], None]) -> None:
    """Have a hook called with each point that this process reaches from here on."""
    _hooks.append(hook)
