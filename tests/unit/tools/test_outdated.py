"""Pins that shut a newer release out have a reason."""

from tests.support.repository import ROOT
from tools.outdated import FILES, pins_in


def test_every_pin_of_ours_has_a_reason() -> None:
    pins = [pin for name in FILES for pin in pins_in(ROOT / name)]
    assert {"prefect", "openpipe-art", "vllm"} <= {pin.requirement.name for pin in pins}
    assert [str(pin.requirement) for pin in pins if not pin.reason] == []
