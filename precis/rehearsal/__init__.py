"""The common parts of the embedded policies: GRPO, checkpoint format, endpoint and backend.

`kind` has their differences. `extractive` picks sentences, and `tool_calls` picks tool calls; both
learn on a CPU, and replace a language model in a rehearsal. `judges` replaces the judge.
"""
