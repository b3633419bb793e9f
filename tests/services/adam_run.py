"""A tiny training with Adam, as it is and restarted: `python adam_run.py FOLDER FROM TO`.

Trains steps FROM to TO of a model with one hidden layer, beginning with what FOLDER holds of step
FROM, writes what it then is, and prints the loss of each step. Runs with Debian's torch: the
development environment has none.
"""

import sys
from pathlib import Path

import torch

from precis.trainer.gpu.optimizer import load_optimizer, make_optimizer, save_optimizer

WEIGHTS_FILE = "weights.pt"


def make_model() -> torch.nn.Module:
    """The same untrained model in every process."""
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))


def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The samples of a step: the same whenever it is trained."""
    chance = torch.Generator().manual_seed(step)
    samples = torch.randn(32, 8, generator=chance)
    return samples, samples.prod(dim=1, keepdim=True) + samples.sum(dim=1, keepdim=True)


def train(folder: Path, first: int, last: int) -> None:
    """Train the steps in between, and leave the result in the folder."""
    model = make_model()
    weights = list(model.parameters())
    optimizer = make_optimizer(weights)
    if first:
        model.load_state_dict(torch.load(folder / WEIGHTS_FILE))
        load_optimizer(optimizer, folder)
        assert optimizer.state, "The folder holds no state of the optimizer."
    for group in optimizer.param_groups:
        group["lr"] = 0.01
    for step in range(first, last):
        samples, targets = batch(step)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(samples), targets)
        loss.backward()
        optimizer.step()
        print(loss.item().hex())
    torch.save(model.state_dict(), folder / WEIGHTS_FILE)
    save_optimizer(optimizer, folder)


if __name__ == "__main__":
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    train(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
