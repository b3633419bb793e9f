"""What the embedded policy of agents keeps in memory of requests with many options."""

import tracemalloc
from typing import Any

import numpy as np

from precis.rehearsal.tool_calls.features import WEIGHTS, see
from precis.rehearsal.tool_calls.kind import TOOL_CALLS, CallSample
from precis.rehearsal.tool_calls.options import OPTIONS_MAX, list_options

MIB = 2**20
CHOOSE = {
    "type": "function",
    "function": {
        "name": "choose",
        "parameters": {
            "type": "object",
            "properties": {"number": {"enum": list(range(OPTIONS_MAX))}},
            "required": ["number"],
        },
    },
}


def messages(number: int) -> list[dict[str, Any]]:
    said = " ".join(f"word{one}" for one in range(number, number + 40))
    return [{"role": "user", "content": f"Choose a number by these words: {said}."}]


def sample(number: int) -> CallSample:
    asked = messages(number)
    seen = see(asked, list_options(asked, [CHOOSE]))
    return CallSample(seen, (number,), number, 0.0, 1.0, (number,))


def test_a_batch_of_many_options_is_laid_out_a_part_at_a_time() -> None:
    samples = [sample(number % 4) for number in range(64)]
    weights = np.linspace(-1.0, 1.0, WEIGHTS)
    tracemalloc.start()
    batch = TOOL_CALLS.batch_of(samples, [1.0] * 64)
    scores = batch.scores(weights)
    gradient = batch.gradient(scores)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 120 * MIB
    alone = [TOOL_CALLS.batch_of([one], [1.0]) for one in samples]
    assert np.array_equal(scores, np.concatenate([one.scores(weights) for one in alone]))
    parts = [one.gradient(scores[[row]]) for row, one in enumerate(alone)]
    assert np.allclose(gradient, np.sum(parts, axis=0))
