"""The `precis` command before any of its commands has begun."""

import sys
from collections.abc import Sequence

import pytest

from precis.__main__ import main


class Interruption:
    """Finds no module; the import of one of them is interrupted."""

    def __init__(self, module: str) -> None:
        self._module = module

    def find_spec(self, name: str, path: Sequence[str] | None, target: object = None) -> None:
        if name == self._module:
            raise KeyboardInterrupt


def test_ctrl_c_while_the_command_is_loaded_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "cli.main", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interruption("cli.main"), *sys.meta_path])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 130
