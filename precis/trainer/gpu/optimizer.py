"""Adam, and its state in a checkpoint: a restarted run resumes with the same moments, and with the
reference of its KL penalty."""

from collections.abc import Sequence
from pathlib import Path

import torch

OPTIMIZER_FILE = "optimizer.pt"
_BETAS = (0.9, 0.99)
_WEIGHT_DECAY = 0.1


def make_optimizer(weights: Sequence[torch.nn.Parameter]) -> torch.optim.AdamW:
    """Adam over weights that lie where they will be trained; betas and decay are ART's.

    Its moments are kept in 32 bits: 8 bytes a weight of the adapter, 120 MB at rank 8 of a model
    of 3 billion weights.
    """
    one_kernel = {"fused": True} if weights[0].is_cuda else {}
    return torch.optim.AdamW(
        weights, lr=0.0, betas=_BETAS, weight_decay=_WEIGHT_DECAY, **one_kernel
    )


def save_optimizer(
    optimizer: torch.optim.Optimizer,
    folder: Path,
    reference: list[torch.Tensor] | None = None,
) -> None:
    """Write the optimizer's state beside the adapter that it belongs to, with the weights of the KL
    penalty's reference, if there is one."""
    state = {"state": optimizer.state_dict()["state"], "reference": reference}
    torch.save(state, folder / OPTIMIZER_FILE)


def load_optimizer(optimizer: torch.optim.Optimizer, folder: Path) -> list[torch.Tensor] | None:
    """Resume with the state of a checkpoint; one that imitation has made has no moments. Return the
    weights of the KL penalty's reference, on the optimizer's device; None where there is none."""
    file = folder / OPTIMIZER_FILE
    if not file.exists():
        return None
    kept = torch.load(file, map_location="cpu", weights_only=True)
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": kept["state"], "param_groups": groups})
    if kept["reference"] is None:
        return None
    device = optimizer.param_groups[0]["params"][0].device
    return [weight.to(device) for weight in kept["reference"]]
