"""Observers: services that receive a run's rollouts; their failures never stop it.

`async with observing() as observers: observers.rollouts(...)` reports rollouts to OpenPipe,
Langfuse and Weave; W&B (`wandb_log`) takes metrics, tables, charts and results. Each needs its key,
and the run never waits for one, except for a bounded time at its end.
"""
