"""A completion as the observers are told of it."""

from precis.observe.completions import CompletionRecord

SEEN = CompletionRecord(
    id="0123456789abcdef0123456789abcdef",
    run="run-1",
    model="m@4",
    messages=[{"role": "user", "content": "Summarize."}],
    parameters={"temperature": 0.0},
    text="The mayor did.",
    finish="stop",
    ended_at=1_800_000_000.5,
    seconds=0.25,
    prompt_tokens=40,
    completion_tokens=3,
    usd=0.001,
    scores={"accuracy": 0.75, "words": 3.0},
    notes={"split": "train", "step": "4", "scenario": "d"},
)
