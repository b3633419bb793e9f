"""The training flow on this machine's GPU, as a process: `python -m tests.gpu.flow.training FILE`.

FILE holds a `TrainConfig` as JSON. What it is about is in `tests/gpu/README.md`.
"""

import asyncio
import sys
from pathlib import Path

from flows.train import train
from precis.config import TrainConfig


def main() -> None:
    config = TrainConfig.model_validate_json(Path(sys.argv[1]).read_text())
    report = asyncio.run(train(config))
    for standing in report.standings if report else ():
        print(*standing, sep=" | ", flush=True)


if __name__ == "__main__":
    main()
