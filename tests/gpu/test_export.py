"""A trained adapter, and the weights that it was merged into, write the same greedy summaries.

Needs a GPU, vLLM's command on PATH, and a run that was trained: `PRECIS_GPU_RUN` names it, and
`PRECIS_STORE` where it lies. See `tests/gpu/README.md`.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import Any

import httpx
import pytest

from precis.config import DocumentsConfig
from precis.records.documents import load_corpus
from precis.summaries.prompt import summary_messages

RUN = os.environ.get("PRECIS_GPU_RUN", "")
DOCUMENTS = 3
_KEY = "a key of the test"
_PORT = 18_431
_START_S = 300

pytestmark = pytest.mark.skipif(not RUN, reason="PRECIS_GPU_RUN names no run to export")


@pytest.fixture(scope="module")
def texts() -> list[str]:
    corpus = load_corpus(DocumentsConfig(train_size=160, val_size=32))
    return [document.text for document in corpus.validation[:DOCUMENTS]]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `adapter`, `merged` (the base's type) and `merged32`."""
    folder = tmp_path_factory.mktemp("exported")
    export(folder / "adapter", "--format", "adapter")
    export(folder / "merged", "--format", "merged")
    export(folder / "merged32", "--format", "merged", "--dtype", "float32")
    return folder


def test_merging_changes_no_word_in_32_bits(exported: Path, texts: list[str]) -> None:
    """By Transformers: base and adapter apart, and the merged weights."""
    apart = write_greedily(exported / "adapter", texts)
    merged = write_greedily(exported / "merged32", texts)
    assert merged == apart
    assert all(len(summary.split()) > 50 for summary in merged)


def test_vllm_serves_the_adapter_and_the_merged_weights(
    exported: Path, texts: list[str], tmp_path: Path
) -> None:
    """Both by `precis model serve --run`; in 16 bits two ways of adding may differ in a word."""
    files = []
    for number, text in enumerate(texts):
        files.append(tmp_path / f"{number}.txt")
        files[-1].write_text(text)
    with served(RUN, tmp_path / "adapter.log") as url:
        apart = summarize(files, url)
    with served(str(exported / "merged"), tmp_path / "merged.log") as url:
        merged = summarize(files, url)
    for one, other in zip(apart, merged, strict=True):
        print(f"{count_alike(one, other)} of {len(one.split())} words, before one differs")
    assert all(len(summary.split()) > 50 for summary in (*apart, *merged))


def count_alike(one: str, other: str) -> int:
    """How many words two texts begin with in common."""
    pairs = zip(one.split(), other.split(), strict=False)
    return len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))


def export(to: Path, *options: str) -> None:
    precis("model", "export", RUN, "--to", str(to), *options)


def precis(*arguments: str) -> str:
    command = [sys.executable, "-m", "precis", *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PRECIS_API_KEY": _KEY}
    )
    print(done.stdout, done.stderr, flush=True)
    assert done.returncode == 0
    return done.stdout


def summarize(files: list[Path], url: str) -> list[str]:
    lines = precis("summarize", *map(str, files), "--url", url, "--json").splitlines()
    return [json.loads(line)["summary"] for line in lines if line.startswith("{")]


@contextmanager
def served(name: str, log: Path) -> Iterator[str]:
    """A server of vLLM's for a run or for merged weights; its address, with /v1."""
    command = [sys.executable, "-m", "precis", "model", "serve", name, "--run"]
    with log.open("w") as output:
        server = subprocess.Popen(
            [*command, "--port", str(_PORT)],
            stdout=output,
            stderr=output,
            env={**os.environ, "PRECIS_API_KEY": _KEY},
            start_new_session=True,
        )
    url = f"http://127.0.0.1:{_PORT}/v1"
    try:
        wait_for(url, server, log)
        yield url
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(60)


def wait_for(url: str, server: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        assert server.poll() is None, log.read_text()[-2000:]
        try:
            answer = httpx.get(f"{url}/models", headers={"authorization": f"Bearer {_KEY}"})
            answer.raise_for_status()
            return
        except httpx.HTTPError:
            time.sleep(0.5)
    raise AssertionError(f"vLLM did not start within {_START_S} s: {log.read_text()[-2000:]}")


def write_greedily(folder: Path, texts: list[str]) -> list[str]:
    """Summaries by an adapter on its base, or by a whole model, computed in 32 bits."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    settings = folder / "adapter_config.json"
    base = json.loads(settings.read_text())["base_model_name_or_path"] if settings.exists() else ""
    tokenizer: Any = AutoTokenizer.from_pretrained(str(folder))
    model: Any = AutoModelForCausalLM.from_pretrained(base or str(folder), dtype=torch.float32)
    if base:
        from peft import PeftModel

        model = PeftModel.from_pretrained(model, str(folder))
    model.to("cuda:0").eval()
    summaries = []
    for text in texts:
        prompt = tokenizer.apply_chat_template(
            summary_messages(text), add_generation_prompt=True, return_tensors="pt"
        ).to("cuda:0")
        with torch.no_grad():
            written = model.generate(prompt, max_new_tokens=500, do_sample=False)
        summaries.append(tokenizer.decode(written[0, prompt.shape[1] :], skip_special_tokens=True))
    return summaries
