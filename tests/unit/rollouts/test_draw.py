"""Which scenarios a step takes."""

from precis.records.rollout import Scenario
from precis.rollouts.sample import draw_batch, draw_spares

SCENARIOS = tuple(Scenario(f"s{number}") for number in range(8))


def test_a_batch_is_a_function_of_seed_and_step() -> None:
    assert draw_batch(SCENARIOS, 1, 7, 3) == draw_batch(SCENARIOS, 1, 7, 3)
    assert draw_batch(SCENARIOS, 1, 7, 3) != draw_batch(SCENARIOS, 2, 7, 3)


def test_a_step_s_spares_follow_from_seed_and_step_and_are_not_of_its_batch() -> None:
    batch = draw_batch(SCENARIOS, 1, 3, 2)
    spares = draw_spares(SCENARIOS, 1, 3, 2, 4)
    assert spares == draw_spares(SCENARIOS, 1, 3, 2, 4)
    assert not set(spares) & set(batch)
    assert spares[:2] == draw_spares(SCENARIOS, 1, 3, 2, 2)
    assert spares != draw_spares(SCENARIOS, 1, 4, 2, 4)
    assert len(draw_spares(SCENARIOS, 1, 3, 2, 10_000)) == len(SCENARIOS) - 2
    assert draw_spares(SCENARIOS, 1, 3, 2, 0) == ()
