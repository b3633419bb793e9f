"""A trainer on this machine: a child process on the loopback, which ends with this process."""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from precis.cluster.site import TrainerAddress, answers
from precis.errors import ConfigError
from precis.processes.child import ChildService, Launch, child_service, is_running
from precis.settings.trainer import BackendName

GPU_PYTHON = Path(__file__).parents[2] / ".venv-gpu" / "bin" / "python"
_MODULE = "precis.trainer.server"


@dataclass(eq=False)
class LocalHost:
    """Starts the trainer as a child process, and again when it has died.

    Args:
        folder: its checkpoints and journal; a restarted trainer continues from there. One trainer
            at a time works in it: a second one waits.
        seed: of the untrained policy.
        log: receives its output.
        backend: the trainer's backend; `local`, which is ART's, needs a GPU here.
        launch: starts it.
    """

    folder: Path
    seed: int
    log: Path
    backend: BackendName = "extractive"
    launch: Launch = child_service
    _child: AsyncExitStack = field(default_factory=AsyncExitStack)
    _service: ChildService | None = None

    async def up(self) -> TrainerAddress:
        """Start the trainer unless it runs. Raises ConfigError if the packages for a GPU are not
        installed on this machine, and TrainerError if it did not start."""
        # ART's packages can't share an environment with the flow's (`gpu` in pyproject.toml).
        python = str(GPU_PYTHON) if self.backend == "local" else sys.executable
        if not Path(python).exists():
            raise ConfigError(
                "trainer.kind is 'art' and cluster.where is 'local', but the packages for a GPU "
                "are not installed here: run `make install-gpu`, or rent a machine "
                "(cluster.where: sky)."
            )
        if self._service is None or not await _answers(self._service):
            await self.down()
            arguments = ["--path", str(self.folder), "--seed", str(self.seed), "--with-parent"]
            arguments += ["--backend", self.backend]
            self._service = await self._child.enter_async_context(
                self.launch(_MODULE, arguments, self.log, python, supervised=True)
            )
        return TrainerAddress(self._service.url, self._service.token)

    async def down(self) -> None:
        """Stop the trainer; its folder stays."""
        self._service = None
        await self._child.aclose()


async def _answers(trainer: ChildService) -> bool:
    """Return whether it is up; its supervisor may outlive it by seconds while cleaning up."""
    address = TrainerAddress(trainer.url, trainer.token)
    return is_running(trainer.pid) and await answers(address, is_busy=True)


@contextmanager
def scratch_folder(beside: Path) -> Iterator[Path]:
    """Yield a folder for a trainer of this process alone, which only serves downloaded checkpoints.
    Deletes those of killed processes."""
    beside.mkdir(parents=True, exist_ok=True)
    for left in beside.iterdir():
        process = left.name.partition("-")[0]
        if process.isdecimal() and not is_running(int(process)):
            shutil.rmtree(left, ignore_errors=True)
    with TemporaryDirectory(prefix=f"{os.getpid()}-", dir=beside) as folder:
        yield Path(folder)
