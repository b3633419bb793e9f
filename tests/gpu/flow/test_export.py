"""A trained adapter, and the weights that it was merged into, write the same greedy summaries.

Needs a GPU, both environments, vLLM's command on PATH, and `PRECIS_GPU_MODEL`; see
`tests/gpu/README.md`.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from precis.cluster.local import GPU_PYTHON
from precis.environments.summaries.prompt import summary_messages
from tests.gpu.flow.conftest import TrainedRun, count_alike

_KEY = "a key of the test"
_PORT = 18_431
_START_S = 300
_WRITE = """
import json, sys, torch
from pathlib import Path
from transformers import AutoModelForCausalLM, AutoTokenizer
folder, texts = sys.argv[1], json.load(sys.stdin)
settings = Path(folder, "adapter_config.json")
base = json.loads(settings.read_text())["base_model_name_or_path"] if settings.exists() else ""
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForCausalLM.from_pretrained(base or folder, dtype=torch.float32)
if base:
    from peft import PeftModel
    model = PeftModel.from_pretrained(model, folder)
model.to("cuda:0" if torch.cuda.is_available() else "cpu").eval()
for messages in texts:
    prompt = tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, return_tensors="pt"
    ).to(model.device)
    with torch.no_grad():
        written = model.generate(prompt, max_new_tokens=250, do_sample=False)
    summary = tokenizer.decode(written[0, prompt.shape[1]:], skip_special_tokens=True)
    print("\\0" + json.dumps(summary))
"""
"""Summaries by an adapter on its base, or by a whole model, computed in 32 bits."""


@pytest.fixture(scope="module")
def exported(trained_run: TrainedRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `adapter` and `merged`, which has 32 bits: in 16 too little may be left."""
    folder = tmp_path_factory.mktemp("exported")
    export(trained_run, folder / "adapter", "--format", "adapter")
    base = ("--base", trained_run.config.trainer.base_model)  # which may be a folder
    export(trained_run, folder / "merged", "--format", "merged", "--dtype", "float32", *base)
    return folder


def test_merging_changes_no_word_in_32_bits(trained_run: TrainedRun, exported: Path) -> None:
    """By Transformers: base and adapter apart, and the merged weights."""
    apart = write_greedily(exported / "adapter", trained_run.texts)
    merged = write_greedily(exported / "merged", trained_run.texts)
    assert merged == apart
    assert all(merged)


def test_vllm_serves_the_adapter_and_the_merged_weights(
    trained_run: TrainedRun, exported: Path, tmp_path: Path
) -> None:
    """Both by `precis model serve --run`: the adapter in 16 bits, what was merged in 32."""
    files = []
    for number, text in enumerate(trained_run.texts):
        files.append(tmp_path / f"{number}.txt")
        files[-1].write_text(text)
    apart = serve_and_summarize(trained_run, trained_run.served_as, files, tmp_path)
    merged = serve_and_summarize(trained_run, str(exported / "merged"), files, tmp_path)
    for one, other in zip(apart, merged, strict=True):
        print(f"{count_alike(one, other)} of {len(one.split())} words, before one differs")
    assert all(apart)
    assert all(merged)


def export(run: TrainedRun, to: Path, *options: str) -> None:
    precis(run, "model", "export", run.served_as, "--to", str(to), *options)


def precis(run: TrainedRun, *arguments: str) -> str:
    command = [sys.executable, "-m", "precis", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(run))
    print(done.stdout, done.stderr, flush=True)
    assert done.returncode == 0
    return done.stdout


def environment(run: TrainedRun) -> dict[str, str]:
    return {**os.environ, "PRECIS_API_KEY": _KEY, "PRECIS_STORE": run.config.store}


def serve_and_summarize(run: TrainedRun, name: str, files: list[Path], folder: Path) -> list[str]:
    with served(run, name, folder / "vllm.log") as url:
        options = ["--url", url, "--model", run.served_as, "--json"]
        lines = precis(run, "summarize", *map(str, files), *options).splitlines()
    return [json.loads(line)["summary"] for line in lines if line.startswith("{")]


@contextmanager
def served(run: TrainedRun, name: str, log: Path) -> Iterator[str]:
    """A server of vLLM's for a run or for merged weights; its address, with /v1."""
    command = [sys.executable, "-m", "precis", "model", "serve", name, "--run"]
    command += ["--base", run.config.trainer.base_model]
    with log.open("w") as output:
        server = subprocess.Popen(
            [*command, "--port", str(_PORT)],
            stdout=output,
            stderr=output,
            env=environment(run),
            start_new_session=True,
        )
    url = f"http://127.0.0.1:{_PORT}/v1"
    try:
        wait_for(url, server, log)
        yield url
    finally:
        if server.poll() is None:
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
    asked = json.dumps([summary_messages(text) for text in texts])
    done = subprocess.run(
        [str(GPU_PYTHON), "-c", _WRITE, str(folder)], input=asked, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [line for line in done.stdout.splitlines() if line.startswith("\0")]
    return [json.loads(line[1:]) for line in lines]
