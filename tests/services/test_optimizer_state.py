"""Adam's state in a checkpoint, with a real torch: Debian's, on the CPU."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.services.needs import leave_out
from tests.support.repository import ROOT

PYTHON = "/usr/bin/python3"

_TRAIN = """
import sys
from pathlib import Path
import torch
from precis.trainer.gpu.optimizer import load_optimizer, make_optimizer, save_optimizer

folder, first, last = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
torch.use_deterministic_algorithms(True)
torch.set_num_threads(1)
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
optimizer = make_optimizer(list(model.parameters()))
if first:
    model.load_state_dict(torch.load(folder / "weights.pt"))
    load_optimizer(optimizer, folder)
optimizer.param_groups[0]["lr"] = 0.01
for step in range(first, last):
    samples = torch.randn(32, 8, generator=torch.Generator().manual_seed(step))
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(samples), samples.sum(dim=1, keepdim=True))
    loss.backward()
    optimizer.step()
    print(loss.item().hex())
torch.save(model.state_dict(), folder / "weights.pt")
save_optimizer(optimizer, folder)
"""


def train(folder: Path, first: int, last: int) -> list[str]:
    """The losses of some steps, exactly, from a process of their own."""
    folder.mkdir(exist_ok=True)
    environment = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [PYTHON, "-B", "-c", _TRAIN, folder, str(first), str(last)],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.long
def test_a_training_that_was_restarted_goes_on_as_one_that_was_not(tmp_path: Path) -> None:
    if not Path(PYTHON).exists() or subprocess.run([PYTHON, "-c", "import torch"]).returncode:
        leave_out("the Debian package python3-torch is not installed")
    whole = train(tmp_path / "whole", 0, 6)
    begun = train(tmp_path / "restarted", 0, 3)
    assert begun + train(tmp_path / "restarted", 3, 6) == whole
