"""Deferred imports of litellm and transformers, which `import art` would trigger.

ART's `art.utils.trajectory_logging`, which `import art` imports, needs one class of litellm for an
`isinstance` check that is never true here. `import art` itself imports transformers, to patch its
attention masks for PyTorch. Each takes longer than the rest of ART, in every process of a run.
"""

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from types import ModuleType
from typing import Any

_LITELLM = "litellm.types.utils"


def defer_imports() -> None:
    """Make this process import ART without them; they can still be imported.

    If PyTorch is installed, ART patches transformers as usual.
    """
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _ChoicesType(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        # Without the import there can be no instance of the class.
        litellm = sys.modules.get(_LITELLM)
        return litellm is not None and isinstance(instance, litellm.Choices)


class _Choices(metaclass=_ChoicesType):
    """A stand-in for litellm's class with the same instances."""


class _Finder(MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        deferred: str
        found: ModuleType | None = None
        if name == "art" and find_spec("torch") is None:
            deferred = "transformers"
        elif name == "art.utils.trajectory_logging" and "litellm" not in sys.modules:
            deferred = _LITELLM
            found = ModuleType(_LITELLM)
            found.Choices = _Choices  # type: ignore[attr-defined]
        else:
            return None
        spec = PathFinder.find_spec(name, path)
        if spec and spec.loader and deferred not in sys.modules:
            spec.loader = _Deferring(spec.loader, deferred, found)
        return spec


class _Deferring(Loader):
    """Executes a module with a substitute for a module that it imports.

    Args:
        loader: the module's own.
        deferred: the name of the imported module.
        found: the substitute; None if the import is to fail.
    """

    def __init__(self, loader: Loader, deferred: str, found: ModuleType | None) -> None:
        self._loader = loader
        self._deferred = deferred
        self._found = found

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        modules: dict[str, Any] = sys.modules
        modules[self._deferred] = self._found
        try:
            self._loader.exec_module(module)
        finally:
            del modules[self._deferred]
