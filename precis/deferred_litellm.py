"""litellm, imported by who calls it, and not by all who import ART.

ART's `art.utils.trajectory_logging`, which `import art` imports, asks litellm for one class, to
tell its instances from others. That import takes longer than all others of ART together, in
each process that trains or is trained, and none of ours has such an instance.
"""

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

_ASKS = "art.utils.trajectory_logging"
_ASKED = "litellm.types.utils"


def defer_litellm() -> None:
    """Have this process import ART without litellm; `import litellm` works as ever."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _ChoicesType(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        # Nobody has an instance of a class that nobody has imported.
        litellm = sys.modules.get(_ASKED)
        return litellm is not None and isinstance(instance, litellm.Choices)


class _Choices(metaclass=_ChoicesType):
    """Has the instances of litellm's class."""


class _Finder(MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != _ASKS or "litellm" in sys.modules:
            return None
        spec = PathFinder.find_spec(name, path)
        if spec and spec.loader:
            spec.loader = _Deferring(spec.loader)
        return spec


class _Deferring(Loader):
    """Executes a module that finds our class where it looks for litellm's."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        standin = ModuleType(_ASKED)
        standin.Choices = _Choices  # type: ignore[attr-defined]
        sys.modules[_ASKED] = standin
        try:
            self._loader.exec_module(module)
        finally:
            del sys.modules[_ASKED]
