"""The GPUs of this machine, as NVIDIA's driver lists them."""

import asyncio
import os
import subprocess
from dataclasses import dataclass

from precis.errors import ConfigError

_COMMAND = ("nvidia-smi", "--query-gpu=index,uuid,name,memory.total", "--format=csv,noheader")
_FIELDS = 4
_ANSWER_S = 30.0
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_RENT = "Rent a machine (cluster.where: sky), or train the embedded policy."


@dataclass(frozen=True)
class Gpu:
    """A GPU; `memory` includes its unit."""

    index: str
    uuid: str
    name: str
    memory: str

    def __str__(self) -> str:
        return f"GPU {self.index}: {self.name}, {self.memory}"


async def gpus_suffice(wanted: int) -> str:
    """List the GPUs that a trainer on this machine sees. Raises ConfigError if they are too few."""
    try:
        listing = await asyncio.to_thread(
            subprocess.check_output, _COMMAND, stderr=subprocess.DEVNULL, timeout=_ANSWER_S
        )
    except subprocess.TimeoutExpired as error:
        raise ConfigError(
            f"trainer.kind is 'art', and {_COMMAND[0]} did not answer for {_ANSWER_S:g} s: the "
            "GPU's driver hangs.",
            f"Restart this machine; `dmesg` may have the cause. {_RENT}",
        ) from error
    except (OSError, subprocess.CalledProcessError) as error:
        why = error.strerror if isinstance(error, OSError) else f"exit status {error.returncode}"
        raise ConfigError(
            f"trainer.kind is 'art', and {_COMMAND[0]} lists no GPU of this machine ({why}).",
            f"Run it by hand to see why. {_RENT}",
        ) from error
    gpus = []
    for line in listing.decode(errors="replace").splitlines():
        fields = line.split(", ")
        if len(fields) == _FIELDS:
            gpus.append(Gpu(*fields))
    seen = gpus
    named = os.environ.get(_VISIBLE)
    if named is not None:  # CUDA names them by index, or by the beginning of their id
        seen = []
        for name in filter(None, map(str.strip, named.split(","))):
            if name.startswith("MIG-"):  # not in the listing of whole GPUs
                seen.append(Gpu(name, name, "a part of a GPU", "MIG"))
            seen += [gpu for gpu in gpus if gpu.index == name or gpu.uuid.startswith(name)]
    found = "; ".join(map(str, seen)) or "none"
    if len(seen) < wanted:
        hint = "" if named is None else f", by {_VISIBLE}={named}"
        raise ConfigError(
            f"trainer.engine.gpus is {wanted}, and the trainer would see {len(seen)} here "
            f"({found}{hint}).",
            "Set it to 1, and off_policy_steps to 0." if seen else _RENT,
        )
    return found
