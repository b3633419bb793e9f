"""The common parts of the embedded policies: one GRPO, checkpoint format, endpoint and backend.

`kind` is what tells one from another. `extractive` picks sentences, and `tool_calls` picks calls
of tools; both learn on a CPU, and stand in for a language model in a rehearsal. `judges` are what
stands in for a judge there.
"""
