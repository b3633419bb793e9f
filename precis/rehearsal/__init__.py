"""What the embedded policies share: one GRPO, one checkpoint format, one endpoint, one backend.

`kind` is what tells one from another. `precis.extractive` picks sentences, and `precis.tool_calls`
picks calls of tools; both learn on a CPU, and stand in for a language model in a rehearsal.
"""
