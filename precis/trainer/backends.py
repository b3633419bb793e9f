"""The backends that a trainer server can host."""

from pathlib import Path

from precis.rehearsal.backend import EmbeddedBackend
from precis.rehearsal.extractive.kind import SENTENCES
from precis.rehearsal.tool_calls.kind import TOOL_CALLS
from precis.settings.trainer import BackendName
from precis.trainer.backend import TrainerBackend
from precis.trainer.tinker.check import require_client


def open_backend(name: BackendName, path: Path, seed: int) -> TrainerBackend:
    """Return a backend whose models lie under `path`.

    Args:
        name: `extractive` and `tool_calls` train embedded policies; `local` is ART's LocalBackend,
            which needs a GPU; `serverless` has W&B train, and needs WANDB_API_KEY; `tinker` has
            whoever speaks the Tinker API train, and needs TINKER_API_KEY.
        seed: of an untrained policy or adapter.
    """
    if name == "extractive":
        return EmbeddedBackend(SENTENCES, path=path, seed=seed)
    if name == "tool_calls":
        return EmbeddedBackend(TOOL_CALLS, path=path, seed=seed)
    if name == "serverless":
        from precis.trainer.serverless import open_wandb  # W&B's client takes seconds to import

        return open_wandb(path)
    if name == "tinker":
        require_client()
        from precis.trainer.tinker.backend import TinkerBackend  # its packages are an extra

        return TinkerBackend(path, seed)
    from precis.trainer.gpu.backend import (
        GpuBackend,
    )  # torch and vLLM, which only a GPU's machine has

    return GpuBackend(path, seed)
