"""The contenders of a benchmark, each asked once, within its limits and its budget.

`lineup` says who takes part, `client` asks through the recorder or takes replies that are kept,
`measure` makes rows of results, and `run` is what a benchmark works with.
"""
