"""Deferred imports of litellm and transformers, which `import art` would trigger.

ART's `art.utils.trajectory_logging`, which `import art` imports, needs one class of litellm for an
`isinstance` check that is never true here. `import art` itself imports transformers, to patch its
attention masks for PyTorch. Each takes longer than the rest of ART, in every process of a run.
"""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from types import ModuleType
from typing import Any

_LITELLM = "litellm.types.utils"


class _ChoicesType(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        # Without the import there can be no instance of the class.
        litellm = sys.modules.get(_LITELLM)
        return litellm is not None and isinstance(instance, litellm.Choices)


class _Choices(metaclass=_ChoicesType):
    """A stand-in for litellm's class with the same instances."""


class DeferringFinder(MetaPathFinder):
    """Imports ART without them; they can still be imported. If PyTorch is installed, ART patches
    transformers as usual."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        deferred: str
        substitute: ModuleType | None = None  # an import of None fails
        if name == "art" and find_spec("torch") is None:
            deferred = "transformers"
        elif name == "art.utils.trajectory_logging" and "litellm" not in sys.modules:
            deferred = _LITELLM
            substitute = ModuleType(_LITELLM)
            substitute.Choices = _Choices  # type: ignore[attr-defined]
        else:
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is None or spec.loader is None or deferred in sys.modules:
            return spec
        execute = spec.loader.exec_module

        def execute_without(module: ModuleType) -> None:
            modules: dict[str, Any] = sys.modules
            modules[deferred] = substitute
            try:
                execute(module)
            finally:
                del modules[deferred]

        spec.loader.exec_module = execute_without  # type: ignore[method-assign]
        return spec
