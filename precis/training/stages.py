"""The stages of a step, as plain functions.

gather_rollouts → train_step → commit_step → log_step.
"""

import asyncio
import logging
import math
import shutil
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from itertools import chain
from pathlib import Path
from typing import Any

from precis.config import RolloutsConfig
from precis.environments.session import Policy
from precis.environments.trajectories import group_of, in_texts, put_trajectories
from precis.errors import LeaseLost, StoreConflict, StoreError
from precis.llm.providers import Endpoint
from precis.processes.kill_points import reached
from precis.records.ledger import SERVICE_USD, TURNS, Ledger, StepRecord
from precis.records.rollout import Rollout, Scenario, Split
from precis.rollouts.filter import (
    StepRollouts,
    count_causes,
    mean_metrics,
    reward_spread,
    rewards_of,
    turns_to_success,
)
from precis.rollouts.sample import (
    adapter_policy,
    draw_batch,
    draw_spares,
    sample_groups,
    sampled,
)
from precis.runs.checkpoints import commit
from precis.runs.retention import prune
from precis.store import Store
from precis.store.durable import sync_tree, write_text
from precis.trainer.client import Model, RemoteTrainResult
from precis.training.run import Run

_log = logging.getLogger(__name__)

# The record of a checkpoint that could not be uploaded and is kept on this machine.
_FILES = "files"
_RECORD = "record.json"
_DELETE_EVERY = 10
"""Steps between two deletions of old checkpoints."""


async def gather_rollouts(run: Run, step: int) -> StepRollouts:
    """Sample rollouts of the step's scenarios from its adapter (`Run.adapter_for`), and have them
    scored. Raises JudgeUnavailable if too many of them went unscored."""
    settings = run.config.rollouts
    seed = run.config.seed
    size = settings.groups_per_step
    scenarios = draw_batch(run.drawn, seed, step, size)
    spares = draw_spares(run.drawn, seed, step, size, settings.replacements_max)
    adapter = run.adapter_for(step)
    spent = run.spend
    start = time.perf_counter()
    reached("before sampling", step)
    rows = await sample_scenarios(run, step, adapter, scenarios, settings, spares)
    reached("rollouts scored", step)
    seconds = time.perf_counter() - start
    return StepRollouts(rows, settings, adapter, seconds, run.spend.since(spent))


async def sample_scenarios(
    run: Run,
    step: int,
    adapter: int,
    scenarios: Sequence[Scenario],
    settings: RolloutsConfig,
    spares: Sequence[Scenario] = (),
) -> list[list[Rollout]]:
    """Return groups of rollouts of some scenarios, sampled from an adapter for training."""
    async with greedy_policy(run.model, adapter, settings) as greedy:
        # W&B's service trains on text, and knows no ids.
        trained = run.config.trainer.kind != "serverless"
        policy = sampled(greedy, run.config.seed, step, settings.temperature, trained)
        return await sample_groups(
            run.recorder, policy, run.environment, scenarios, settings, spares
        )


def describe_step(run: Run, step: int, rollouts: StepRollouts) -> StepRecord:
    """Return the record of a step before its training, as far as it is known. It books the spending
    up to here; its `gather` seconds are the wait for its rollouts."""
    everyone = list(chain.from_iterable(rollouts.rows))
    metrics = mean_metrics(everyone)
    turns = turns_to_success(everyone)
    if turns:
        metrics[TURNS] = statistics.fmean(turns)
    seconds = run.stopwatch.seconds
    run.described = StepRecord(
        step=step,
        digest="",
        reward=statistics.fmean(rewards_of(everyone) or [0.0]),
        reward_std=reward_spread(rollouts.rows),
        metrics=metrics,
        groups_trained=len(rollouts.groups),
        groups_dropped=dict(rollouts.dropped),
        groups_added=len(rollouts.rows) - run.config.rollouts.groups_per_step,
        unscored=dict(count_causes(everyone)),
        trainer={},
        seconds=seconds,
        staleness=step - rollouts.adapter,
        overlapped_s=max(0.0, rollouts.seconds - seconds.get("gather", 0.0)),
        judge=run.unbooked,
        machine_usd=run.trainer.meter.unbooked_usd,
        machine_saved_usd=run.trainer.meter.unbooked_saved_usd,
        described_at=time.time(),
    )
    return run.described


async def train_step(run: Run, record: StepRecord, rollouts: StepRollouts) -> StepRecord:
    """Train adapter `record.step` to the next; a repeat returns the stored result.

    The rollouts are stored first. The trainer keeps the step's record with its result, so that a
    run that dies before the commit need not sample and judge the step again.
    """
    step = record.step
    # First, since a trained step is not sampled again.
    await keep_rollouts(run, "train", step, rollouts.rows, rollouts.adapter)
    groups = list(map(group_of, rollouts.groups))
    return await learn(run, record, run.trainer.client.train, groups, run.config.trainer.options)


async def learn(
    run: Run,
    record: StepRecord,
    train: Callable[..., Awaitable[RemoteTrainResult]],
    shown: Sequence[Any],
    options: Mapping[str, Any],
) -> StepRecord:
    """Have the trainer learn from what it is shown, by a method of its client; return the step's
    record with the result."""
    reached("before training", record.step)
    start = time.perf_counter()
    result = await train(
        run.model,
        shown,
        step=record.step,
        run=run.ledger.run_id,
        note=record.model_dump(mode="json"),
        **options,
    )
    seconds = time.perf_counter() - start
    reached("step trained", record.step)
    run.service_usd = result.metrics.get(SERVICE_USD, 0.0)
    return as_trained(record, result.digest, result.metrics, train=seconds)


async def commit_step(run: Run, record: StepRecord) -> None:
    """Put checkpoint `record.step + 1` into the store, then the step into the ledger; at every
    tenth, delete the checkpoints that are not to be kept.

    The trainer, which has the files, uploads them; this process only waits for the manifest.
    """
    start = time.perf_counter()
    await run.lease.check()
    reached("lease renewed", record.step)
    client = run.trainer.client
    checkpoint = await client.commit(run.model, record.step + 1, run.stored_model, record)
    # Where an earlier try has committed it, the record is the one in its manifest.
    record = checkpoint.record or record
    timed = record.model_copy(update={"commit_s": time.perf_counter() - start})
    # The ledger moves only after the manifest is written: a resumed run trusts the ledger.
    await run.write_ledger(run.ledger.advance(timed, checkpoint.digest))
    run.trainer.losses = 0
    if run.ledger.next_step % _DELETE_EVERY == 0:  # a validation does it too, but may never come
        await delete_old_checkpoints(run)


async def keep_here(run: Run, record: StepRecord, error: StoreError) -> StoreError:
    """Save a checkpoint that can't be uploaded on this machine; return the error to stop with. The
    next start of the run uploads it: a rented trainer and its disk may be gone by then."""
    if isinstance(error, StoreConflict):
        return error  # another run has the model now
    folder = run.kept_folder
    await run.trainer.client.save(run.model, record.step + 1, folder / _FILES)
    keep_record(folder, record)
    return type(error)(
        f"{error} The checkpoint of step {record.step + 1} is kept in {folder} on this machine, "
        "and goes to the store when the run is started again."
    )


def keep_record(folder: Path, record: StepRecord) -> None:
    """Put a step's record beside its checkpoint's files, which makes them a kept checkpoint."""
    # The files have to be on the disk before the record says that they are.
    sync_tree(folder / _FILES)
    write_text(folder / _RECORD, record.model_dump_json())


def upload_kept(store: Store, ledger: Ledger, folder: Path, lease: str = "") -> int | None:
    """Commit the kept checkpoint that the ledger lacks, if there is one, and delete the folder.
    Returns its step; a StoreError says that it could not be uploaded, and is still kept."""
    path = folder / _RECORD
    record = StepRecord.model_validate_json(path.read_bytes()) if path.exists() else None
    if record is None or record.step > ledger.next_step:
        return None
    step = record.step + 1
    lacks_it = record.step == ledger.next_step
    if lacks_it:
        files = folder / _FILES
        commit(store, ledger.model, step, files, ledger.config, record, ledger.run_id, lease)
    path.unlink()  # first: without it, the files that a kill leaves are no checkpoint
    shutil.rmtree(folder)
    return step if lacks_it else None


async def log_step(run: Run, step: int, rollouts: StepRollouts | None = None) -> None:
    """Append the step to ART's files and to W&B; a repeat appends it again. Without its rollouts,
    which an earlier process has sampled, its metrics alone."""
    metrics = run.metrics_of(step)
    groups = [in_texts(group_of(one)) for one in rollouts.groups] if rollouts else None
    await run.model.log(groups, split="train", metrics=metrics, step=step)
    if run.wandb:
        run.wandb.log(step, metrics)


async def keep_rollouts(
    run: Run, split: Split, step: int, rows: Sequence[Sequence[Rollout]], adapter: int
) -> None:
    """Put an adapter's rollouts into the store, and send them to the observers; a validation's
    samples also to W&B."""
    name = run.model.get_inference_name(adapter)
    await asyncio.to_thread(put_trajectories, run.store, run.name, split, step, rows, name)
    run.tell_samples(split, step, rows, name)


async def delete_old_checkpoints(run: Run) -> None:
    """Delete old checkpoints by `retention`; a failure is logged, and the next call tries again."""
    try:
        await asyncio.to_thread(prune, run.store, run.ledger, run.config.retention, run.lease.id)
    except LeaseLost:
        raise
    except StoreError as error:
        _log.warning("Old checkpoints could not be deleted: %s", error)


def greedy_policy(
    model: Model, adapter: int, config: RolloutsConfig
) -> AbstractAsyncContextManager[Policy]:
    """Return the greedy policy of a model's adapter, while the block lasts."""
    name, key = model.get_inference_name(adapter), str(model.inference_api_key)
    endpoint = Endpoint(str(model.inference_base_url), name, key, role=f"policy {name}")
    return adapter_policy(endpoint, adapter, config)


def as_trained(
    record: StepRecord, digest: str, metrics: Mapping[str, float], **seconds: float
) -> StepRecord:
    """Return the record of a trained step. Metrics that are not finite numbers are left out: JSON
    can't hold them."""
    finite = {}
    for name, figure in metrics.items():
        if figure is not None and math.isfinite(figure):
            finite[name] = figure
    known = {
        "digest": digest,
        "trainer": finite,
        "seconds": {**record.seconds, **seconds},
        "machine_usd": record.machine_usd + metrics.get(SERVICE_USD, 0.0),
    }
    return record.model_copy(update=known)
