"""GGUF, the file that llama.cpp and Ollama run, by llama.cpp's own converter."""

import os
import shutil
import subprocess
from pathlib import Path

from precis.errors import ConfigError, ConversionError
from precis.models.prompt import prompt_of
from precis.models.record import TrainingRecord

CONVERTER = "convert_hf_to_gguf.py"

_MODELFILE = """FROM ./{file}
PARAMETER temperature 0
PARAMETER num_ctx {context}
"""
_SYSTEM = '''SYSTEM """{system}"""
'''


def find_converter(given: Path | None) -> Path:
    """Where llama.cpp's converter is: the path that was given, or the first on PATH.

    Raises:
        ConfigError: it is not there.
    """
    found = given or shutil.which(CONVERTER)
    if found is None or not Path(found).is_file():
        where = f"at {given}" if given else "on PATH"
        raise ConfigError(
            f"llama.cpp's {CONVERTER} is not {where}.",
            "Clone llama.cpp, install its requirements, and name the script with --converter.",
        )
    return Path(found).absolute()


def convert(converter: Path, merged: Path, file: Path, name: str) -> None:
    """Make a GGUF file of merged weights, in their own type; programs show it by the name.

    A converter that is not executable is run by the `python3` of PATH: the environment that its
    requirements are in is hardly ever that of Précis.

    Raises:
        ConversionError: the converter failed; the message ends with the last that it said.
    """
    runs_by_itself = os.access(converter, os.X_OK)
    program = [str(converter)] if runs_by_itself else ["python3", str(converter)]
    options = ["--outfile", str(file), "--outtype", "auto", "--model-name", name]
    command = [*program, str(merged), *options]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        raise ConversionError(f"{program[0]} can't be run: {error.strerror}.") from error
    if done.returncode != 0 or not file.is_file():
        said = (done.stderr or done.stdout).strip().splitlines()[-3:]
        if any(line.startswith("ModuleNotFoundError") for line in said):
            raise ConversionError(
                f"{converter} misses a package ({said[-1]}): install llama.cpp's requirements in "
                "an environment of their own, and activate it before you run this."
            )
        raise ConversionError(f"{converter} did not convert {merged}:\n" + "\n".join(said))


def write_modelfile(folder: Path, file: str, record: TrainingRecord | None) -> None:
    """Write what Ollama needs besides the weights: the prompt, and how to sample."""
    context = (record.tokens_max if record else None) or 4096
    content = _MODELFILE.format(file=file, context=context)
    messages = prompt_of(record).get("messages")  # an agent brings its own
    if messages:
        content += _SYSTEM.format(system=messages[0]["content"])
    (folder / "Modelfile").write_text(content, encoding="utf-8")
