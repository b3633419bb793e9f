"""Export of a trained model as a folder for other programs: adapter, merged weights or GGUF."""

import json
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from glob import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from precis.errors import ConfigError, ModelError
from precis.models.adapter import (
    CONFIG_FILE,
    WEIGHTS_FILE,
    claimed_base,
    name_base,
    read_adapter,
)
from precis.models.base import base_config, base_to_load, choose_base, find_base, public_name
from precis.models.merge import Proof, merge, verify
from precis.models.prompt import prompt_of, write_prompt
from precis.models.record import TrainingRecord
from precis.models.reference import NamedCheckpoint
from precis.models.tensors import Weights
from precis.processes.child import is_running
from precis.rehearsal.checkpoint_files import POLICY_FILE

Format = Literal["adapter", "merged", "gguf"]
Dtype = Literal["base", "float32"]
"""The type of merged weights: the base's, or 32 bits."""
VERIFICATION_FILE = "verification.json"

_TOKENIZER = {
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "chat_template.jinja",
}
_TAKEN = _TOKENIZER | {CONFIG_FILE, WEIGHTS_FILE, POLICY_FILE}
"""The files of a checkpoint that are exported. It has others, such as those for resuming, and
anyone who can write to the store may add a program or a pickle."""
_LEFT_OUT = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".index.json")
"""Files of a base that are not copied: its weights, replaced by the merged ones."""
CONVERTER = "convert_hf_to_gguf.py"


def find_converter(given: Path | None) -> Path:
    """Find llama.cpp's converter: the given path, or the first on PATH. Raises ConfigError if there
    is none."""
    found = given or shutil.which(CONVERTER)
    if found is None or not os.path.isfile(found):
        where = f"at {given}" if given else "on PATH"
        raise ConfigError(
            f"llama.cpp's {CONVERTER} is not {where}.",
            "Clone llama.cpp, install its requirements, and name the script with --converter.",
        )
    return Path(found).absolute()


def convert(converter: Path, merged: Path, file: Path, name: str) -> None:
    """Make a GGUF file of merged weights, in their own type, with a name for programs to show.

    A converter that is not executable is run by the `python3` of PATH: its requirements are hardly
    ever in the environment of Précis. Raises ModelError with the end of its output.
    """
    runs_by_itself = os.access(converter, os.X_OK)
    program = [str(converter)] if runs_by_itself else ["python3", str(converter)]
    # Named, since its `auto` rounds 32 bits to 16.
    weights = Weights(merged)
    kind, _ = Counter(map(weights.type_of, weights.files)).most_common(1)[0]
    options = ["--outfile", str(file), "--outtype", kind.lower(), "--model-name", name]
    command = [*program, str(merged), *options]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    except OSError as error:
        remedy = "Name llama.cpp's script with --converter."
        raise ModelError(f"{program[0]} can't be run: {error.strerror}.", remedy) from error
    if done.returncode != 0 or not file.is_file():
        said = (done.stderr or done.stdout).strip().splitlines()[-3:]
        if any(line.startswith("ModuleNotFoundError") for line in said):
            raise ModelError(
                f"{converter} misses a package ({said[-1]}): install llama.cpp's requirements in "
                "an environment of their own, and activate it before you run this."
            )
        raise ModelError(f"{converter} did not convert {merged}:\n" + "\n".join(said))


def write_modelfile(folder: Path, file: str, record: TrainingRecord | None) -> None:
    """Write Ollama's Modelfile: the prompt and the sampling parameters."""
    context = (record.tokens_max if record else None) or 4096
    # By default Ollama penalizes repetition.
    content = f"FROM ./{file}\nPARAMETER temperature 0\nPARAMETER repeat_penalty 1\n"
    content += f"PARAMETER num_ctx {context}\n"
    messages = prompt_of(record).get("messages")  # an agent has its own
    if messages:
        content += f'SYSTEM """{messages[0]["content"]}"""\n'
    (folder / "Modelfile").write_text(content, encoding="utf-8")


def export_model(
    model: NamedCheckpoint,
    to: Path,
    file_format: Format,
    base: str = "",
    dtype: Dtype = "base",
    converter: Path | None = None,
) -> Proof | None:
    """Write a model to a new or empty folder, atomically; return the proof of merged weights.

    Args:
        base: a folder or a name on the Hub; empty takes the run's.
        converter: llama.cpp's script; None looks for it on PATH.

    Raises ConfigError if folder, base or converter can't be used, ModelError if the merged weights
    are wrong.
    """
    if model.kind == "policy" and file_format != "adapter":
        raise ConfigError(
            f"{model.serving_name} is the embedded policy, which has no language model's weights.",
            "Export it with --format adapter.",
        )
    if file_format == "gguf":
        find_converter(converter)  # fail before minutes of merging
    with _write_atomically(to.absolute()) as folder:
        if file_format == "adapter":
            folder.rmdir()
            model.fetch(folder)
            if model.kind == "adapter":
                claimed = claimed_base(folder)
                chosen = choose_base(base, model.recorded_base, claimed)
                if chosen != claimed:
                    name_base(folder, chosen)
            for entry in folder.iterdir():
                if entry.is_dir():
                    shutil.rmtree(entry)
                elif entry.name not in _TAKEN:
                    entry.unlink()
            write_prompt(folder, model.record)
            return None
        if file_format == "merged":
            return _merge_into(model, folder, base, dtype)
        with TemporaryDirectory(dir=folder.parent, prefix=".merged-") as temporary:
            merged = Path(temporary) / f"{model.name}-{model.step}"
            merged.mkdir()
            proof = _merge_into(model, merged, base, dtype)
            file = f"{merged.name}.gguf"
            convert(find_converter(converter), merged, folder / file, model.serving_name)
            shutil.copy(merged / VERIFICATION_FILE, folder)
        write_prompt(folder, model.record)
        write_modelfile(folder, file, model.record)
        return proof


def _merge_into(model: NamedCheckpoint, folder: Path, given_base: str, dtype: Dtype) -> Proof:
    kind = "F32" if dtype == "float32" else None
    with TemporaryDirectory(dir=folder.parent, prefix=".adapter-") as temporary:
        adapter = model.fetch(Path(temporary) / "adapter")
        name = base_to_load(given_base, model.recorded_base, claimed_base(adapter))
        base = find_base(name)
        products = read_adapter(adapter)
        merge(base, products, folder, kind)
        proof = verify(base, products, folder, kind)
        # Copy a base's configuration, tokenizer and licence, unless they exist.
        for file in sorted(base.iterdir()):
            is_left_out = file.name.endswith(_LEFT_OUT) or file.name.startswith("README")
            if file.is_file() and not is_left_out and not (folder / file.name).exists():
                shutil.copy(file, folder)  # follows the links of the Hub's cache
        for file in sorted(adapter.iterdir()):
            if file.name in _TOKENIZER and not (folder / file.name).exists():
                shutil.copy(file, folder)
    if dtype == "float32":
        # The second is the name since transformers 5, and overrides the first.
        config = {**base_config(folder), "torch_dtype": "float32", "dtype": "float32"}
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    write_prompt(folder, model.record)
    known = {
        "model": model.serving_name,
        "base": public_name(model.recorded_base or name),
        **asdict(proof),
    }
    (folder / VERIFICATION_FILE).write_text(json.dumps(known, indent=1) + "\n")
    return proof


@contextmanager
def _write_atomically(to: Path) -> Iterator[Path]:
    """Yield a folder of this process to write in, which becomes `to` when the block succeeds."""
    incoming = to.parent / f".{to.name}.{os.getpid()}.incoming"
    try:
        _refuse_full(to)
        for left in to.parent.glob(f".{escape(to.name)}.*.incoming"):
            process = left.stem.rpartition(".")[2]
            if process.isdecimal() and not is_running(int(process)):  # it was killed
                shutil.rmtree(left, ignore_errors=True)
        shutil.rmtree(incoming, ignore_errors=True)  # of a killed one with this one's number
        incoming.mkdir(parents=True)
        yield incoming
        _refuse_full(to)  # another process may have written it meanwhile
        os.replace(incoming, to)
    except OSError as error:
        raise ConfigError(
            f"Can't write {error.filename or to}: {error.strerror}.", "Choose another folder."
        ) from error
    finally:
        shutil.rmtree(incoming, ignore_errors=True)


def _refuse_full(to: Path) -> None:
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise ConfigError(
            f"{to} is there already, and is not empty.", "Name another folder with --to."
        )
