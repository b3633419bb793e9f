"""Where a trainer behind the Tinker API is, and its key."""

import pytest

from precis.errors import ConfigError
from precis.settings.tinker import TinkerTrainer
from precis.trainer.tinker.service import find_service


def test_it_is_looked_for_where_it_runs() -> None:
    assert TinkerTrainer().address is None
    assert TinkerTrainer(service="skyrl").address == "http://127.0.0.1:8000"
    assert TinkerTrainer(base_url="https://host/api/").address == "https://host/api"


def test_a_key_is_taken_stripped_and_refused_on_two_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TINKER_API_KEY", raising=False)
    with pytest.raises(ConfigError, match="TINKER_API_KEY: set it"):
        find_service(TinkerTrainer())
    monkeypatch.setenv("TINKER_API_KEY", " tml-key\n")
    assert find_service(TinkerTrainer()).key == "tml-key"
    monkeypatch.setenv("TINKER_API_KEY", "tml-key\ntml-key")
    with pytest.raises(ConfigError, match="TINKER_API_KEY holds characters that no key has"):
        find_service(TinkerTrainer())
