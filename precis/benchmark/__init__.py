"""Benchmarks: each contender is asked once, within its limits and its budget.

`lineup` chooses the contenders, `client` asks one or takes its kept replies, `measure` makes rows
of results, and `run` holds a benchmark's tools.
"""
