"""A trainer's processes without a GPU: a server, a service, an engine in a session of its own.

They have the names of ART's and vLLM's, and the service and the engine ignore SIGTERM.
"""

import fcntl
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from setproctitle import setproctitle
from starlette.applications import Starlette

from precis.processes.child import serve
from precis.processes.supervisor import claim, need

_ENGINE = """
import signal
from setproctitle import setproctitle
signal.signal(signal.SIGTERM, signal.SIG_IGN)
setproctitle("VLLM::EngineCore")
print("ready", flush=True)
signal.pause()
"""


def service(folder: Path) -> None:
    """Start the engine, say who is who, and outlive everybody."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    setproctitle("precis-gpu")
    command = [sys.executable, "-c", _ENGINE]
    engine = subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE)
    assert engine.stdout is not None
    engine.stdout.readline()
    tree = {
        "supervisor": int((folder / "supervisor").read_text()),
        "server": os.getppid(),
        "service": os.getpid(),
        "engine": engine.pid,
    }
    (folder / "tree.partial").write_text(json.dumps(tree))
    (folder / "tree.partial").rename(folder / "tree.json")
    signal.pause()


def main(folder: Path) -> None:
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        claim(lock)
        (folder / "tree.json").unlink(missing_ok=True)
        (folder / "supervisor").write_text(str(os.getppid()))
        multiprocessing.get_context("spawn").Process(target=service, args=(folder,)).start()
        while not (folder / "tree.json").exists():
            time.sleep(0.05)
        need({"precis-gpu", "VLLM::EngineCor"})
        serve(Starlette(), with_parent=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
