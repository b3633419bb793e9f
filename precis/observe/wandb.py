"""Weights & Biases, in a child process.

Without a network `wandb.init` retries for minutes and ignores SIGTERM, so it runs in a child
process, which reads from a pipe and is abandoned if it does not end in time. If W&B can't be
reached when a run begins, the run is kept in W&B's own files, to be sent later. The child inherits
WANDB_MODE and the rest of the environment.
"""

import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from precis.environment import Variables
from precis.errors import without_controls, without_passwords
from precis.llm.redaction import Redactor
from precis.processes.causes import cause_in
from precis.processes.child import Child, run_child

_FINISH_TIMEOUT_S = 20
_REACH_TIMEOUT_S = 2
_ORPHAN_TIMEOUT_S = 60
_INIT_TIMEOUT_S = 600
_PAGE = "page.url"
_OUTPUT = "wandb.log"

logger = logging.getLogger(__name__)


class WandbLog:
    """A W&B run, logged to without blocking, from any thread.

    Args:
        child: reads what is logged, a line of JSON each.
        folder: has W&B's own files, and the address of its page.
        key: of W&B, which no warning shows.
    """

    def __init__(self, child: Child, folder: Path, key: str) -> None:
        self._child = child
        self._folder = folder
        self._key = key
        self._warned = False
        self._loop = asyncio.get_running_loop()

    @property
    def url(self) -> str:
        """The run's page; empty until W&B has reported it, and offline."""
        page = self._folder / _PAGE
        return page.read_text() if page.exists() else ""

    def log(self, step: int | None, metrics: Mapping[str, float]) -> None:
        """Log the metrics of a step; None for those after all steps."""
        self.put({"step": step, "metrics": dict(metrics)})

    def table(
        self, step: int | None, name: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]
    ) -> None:
        """Log a table, such as a step's samples."""
        self.put({"step": step, "table": name, "columns": list(columns), "rows": list(rows)})

    def images(self, paths: Mapping[str, Path]) -> None:
        """Log pictures; their files must exist until `finish`."""
        self.put({"images": {name: str(path) for name, path in paths.items()}})

    def results(self, name: str, path: Path) -> None:
        """Log a file as the next version of an artifact; it must exist until `finish`."""
        self.put({"artifact": name, "path": str(path)})

    def put(self, entry: Mapping[str, Any]) -> None:
        """Send an entry to the child, whose input is buffered without limit."""
        self._loop.call_soon_threadsafe(self._write, json.dumps(entry).encode() + b"\n")

    def _write(self, line: bytes) -> None:
        assert self._child.process.stdin is not None
        if self._child.process.returncode is None:
            self._child.process.stdin.write(line)
        else:
            self._warn_of_end()

    async def finish(self) -> None:
        """Wait a bounded time for W&B to take the rest."""
        process = self._child.process
        assert process.stdin is not None
        self._loop.call_soon(process.stdin.close)  # after all that was put before
        try:
            if await asyncio.wait_for(process.wait(), _FINISH_TIMEOUT_S):
                self._warn_of_end()
        except TimeoutError:
            logger.warning("W&B did not finish in time; what it has lies in its local folder.")
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    def _warn_of_end(self) -> None:
        """Say once why the child has failed."""
        if not self._warned:
            self._warned = True
            printed = ""
            with contextlib.suppress(OSError):  # deleted meanwhile
                printed = self._child.output()
            cause = without_controls(Redactor(self._key).clean_text(cause_in(printed)))
            logger.warning(
                "W&B has ended: %s. The run continues without it. All that it printed is in %s.",
                cause.rstrip("."),
                self._child.log,
            )


@asynccontextmanager
async def wandb_log(
    name: str, run_id: str, config: Mapping[str, Any], folder: Path
) -> AsyncIterator[WandbLog | None]:
    """Provide a W&B run for the block; None if WANDB_API_KEY is not set.

    A resumed run keeps its id. The folder is for W&B's own files and its log.
    """
    known = Variables()
    key = known.wandb_api_key
    if key is None:
        yield None
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _PAGE).unlink(missing_ok=True)
    secret = key.get_secret_value()
    variables = {"WANDB_SILENT": os.environ.get("WANDB_SILENT", "true"), "WANDB_API_KEY": secret}
    trouble = await unreachable()
    if trouble:
        logger.warning("%s", trouble)
        variables["WANDB_MODE"] = "offline"
    command = [sys.executable, "-m", "precis.observe.wandb"]
    async with run_child(command, folder / _OUTPUT, variables) as child:
        log = WandbLog(child, folder, secret)
        opening = {"name": name, "id": run_id, "config": dict(config), "dir": str(folder)}
        # Not as an argument, which any user of the machine can list.
        log.put({"project": known.wandb_project, **opening})
        try:
            yield log
        finally:
            await log.finish()


async def unreachable() -> str | None:
    """Return why W&B's server can't be reached; None if it can, or need not be."""
    mode = os.environ.get("WANDB_MODE") or "online"
    if Variables().wandb_api_key is None or mode != "online":
        return None
    url = os.environ.get("WANDB_BASE_URL") or "https://api.wandb.ai"
    try:
        # Only the request is sent, so the certificate is not verified: W&B's client does that.
        async with (
            asyncio.timeout(2 * _REACH_TIMEOUT_S),
            httpx.AsyncClient(timeout=_REACH_TIMEOUT_S, verify=False) as client,
            client.stream("GET", url),  # the answer is not read
        ):
            pass
    except (httpx.TransportError, httpx.InvalidURL, TimeoutError) as error:
        why = str(error) or type(error).__name__
        return (
            f"W&B can't be reached at {without_passwords(url)} ({why}): what goes there stays in "
            "its folder on this machine, for `wandb sync`."
        )
    return None


def _main() -> None:
    """Run the child: log each line of standard input, the first of which opens the run."""
    import wandb

    opening = json.loads(sys.stdin.readline())
    # Without a network `init` and `finish` take very long, and a killed run can't end us.
    signal.alarm(_INIT_TIMEOUT_S)
    run = wandb.init(resume="allow", **opening)
    signal.alarm(0)
    (Path(opening["dir"]) / _PAGE).write_text(run.url or "")
    for line in sys.stdin:
        try:
            entry = json.loads(line)
            match entry:
                case {"metrics": metrics}:
                    run.log(metrics, step=entry["step"])
                case {"table": name}:
                    table = wandb.Table(columns=entry["columns"], data=entry["rows"])
                    run.log({name: table}, step=entry["step"])
                case {"images": images}:
                    run.log({name: wandb.Image(path) for name, path in images.items()})
                case {"artifact": name}:
                    artifact = wandb.Artifact(name, type="results")
                    artifact.add_file(entry["path"])
                    run.log_artifact(artifact)
        except (wandb.Error, ValueError, OSError) as error:  # skip this entry
            print(f"Not logged ({error!r}): {line[:200]}", file=sys.stderr, flush=True)
    signal.alarm(_ORPHAN_TIMEOUT_S)
    run.finish()


if __name__ == "__main__":
    _main()
