"""llama.cpp's own converter, and the environment that it runs in: pinned, with hashes.

The source comes in PyPI's llama-cpp-python, of which nothing is compiled.
"""

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from tests.services.needs import leave_out

_LOCKS = Path(__file__).parent
_PYTHON = "python3.11"
"""What the environment is locked for."""


def install(folder: Path) -> tuple[Path, Path]:
    """Bring it into a folder; leave the test out where the packages are not to be had.

    Returns `convert_hf_to_gguf.py`, beside the modules that it imports, and the folder with the
    `python3` that has what those import.
    """
    if shutil.which(_PYTHON) is None:
        leave_out(f"{_PYTHON}, which llama.cpp's packages are locked for, is not here")
    environment = folder / "environment"
    subprocess.run([_PYTHON, "-m", "venv", "--without-pip", environment], check=True)
    pip = (sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python"))
    plain = ("--no-compile", "--no-deps", "--require-hashes")  # most of it is never imported
    _run(*pip, "install", *plain, "-r", _LOCKS / "llama_cpp.lock")
    source = (*pip, "download", "--no-deps", "--no-binary=:all:", "--no-build-isolation")
    locked = ("--require-hashes", "-r", _LOCKS / "llama_cpp_source.lock")
    _run(*source, *locked, "--dest", folder)
    return _unpack(folder), environment / "bin"


def _run(*command: str | Path) -> None:
    done = subprocess.run([*command, "--quiet"], capture_output=True, text=True)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        leave_out(f"llama.cpp's packages can't be installed: {lines[-1] if lines else command}")


def _unpack(folder: Path) -> Path:
    (archive,) = folder.glob("llama_cpp_python-*.tar.gz")
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    archive.unlink()
    (found,) = folder.glob("llama_cpp_python-*/vendor/llama.cpp/convert_hf_to_gguf.py")
    return found
