"""Observers: they receive what happens, and whatever happens to them, the run continues.

`async with observing() as observers: observers.rollouts(...)` reports rollouts wherever there is
a key for it: OpenPipe, Langfuse, Weave. W&B (`wandb_log`) takes metrics, tables of
samples, charts and results. None of them is on without its key, and none is ever waited for, but
a bounded time at the end.

    rollouts     a rollout with its calls, and what became of it
    observers    all services that receive them, as one
    sender       a queue with a bound, and the thread that empties it
    openpipe, langfuse, weave   what each of them is sent
    wandb        W&B, in its own process
"""
