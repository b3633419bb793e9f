"""Observers: they receive what happens, and whatever happens to them, the run continues.

`async with observing() as observers: observers.rollouts(...)` reports rollouts to OpenPipe,
Langfuse and Weave; W&B (`wandb_log`) takes metrics, tables, charts and results. None is on without
its key, and none is ever waited for, but a bounded time at the end.
"""
