"""The GPUs of this machine, as NVIDIA's driver lists them."""

import asyncio
import os
import subprocess

from precis.errors import ConfigError

_COMMAND = ("nvidia-smi", "-L")
_ANSWER_S = 30.0
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_RENT = "Rent a machine (cluster.where: sky), or train the embedded policy."


async def gpus_suffice(wanted: int) -> str:
    """List the GPUs that a trainer on this machine sees. Raises ConfigError if they are too few."""
    try:
        listing = await asyncio.to_thread(
            subprocess.check_output, _COMMAND, stderr=subprocess.DEVNULL, timeout=_ANSWER_S
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise ConfigError(
            f"trainer.kind is 'art', and `{' '.join(_COMMAND)}` lists no GPU of this machine: "
            f"{str(error).rstrip('.')}.",
            f"Run it by hand to see why. {_RENT}",
        ) from error
    # `GPU 0: NVIDIA H200 (UUID: GPU-…)`, and parts of it in further lines, `… (UUID: MIG-…)`.
    listed = listing.decode(errors="replace")
    seen = [line for line in listed.splitlines() if line[:4] == "GPU "]
    named = os.environ.get(_VISIBLE)
    hint = "" if named is None else f", by {_VISIBLE}={named}"
    if named is not None:  # CUDA names them by index, or by the beginning of their id
        names = filter(None, map(str.strip, named.split(",")))
        seen = [one for one in names if f"GPU {one}: " in listed or f"(UUID: {one}" in listed]
    found = "; ".join(seen) or "none"
    if len(seen) < wanted:
        raise ConfigError(
            f"trainer.engine.gpus is {wanted}, and the trainer would see {len(seen)} here "
            f"({found}{hint}).",
            "Set it to 1, and off_policy_steps to 0." if seen else _RENT,
        )
    return f"{found}{hint}"
