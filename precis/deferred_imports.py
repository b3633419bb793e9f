"""litellm and transformers, imported by who uses them, and not by all who import ART.

ART's `art.utils.trajectory_logging`, which `import art` imports, asks litellm for one class, to
tell its instances from others, and none of ours has such an instance. `import art` itself imports
transformers, to change how that masks attention with PyTorch. Each takes longer than the rest of
ART, in each process that trains or is trained.
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
    """Have this process import ART without them; importing them works as ever.

    Where PyTorch is installed, ART changes transformers as it does without us.
    """
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _ChoicesType(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        # Nobody has an instance of a class that nobody has imported.
        litellm = sys.modules.get(_LITELLM)
        return litellm is not None and isinstance(instance, litellm.Choices)


class _Choices(metaclass=_ChoicesType):
    """Has the instances of litellm's class."""


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
    """Executes a module that finds something else than the module which it imports.

    Args:
        loader: the module's own.
        deferred: the name of what it imports.
        found: what it finds instead; None, and it is not installed.
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
