"""Stands in for vLLM's program: the same options, key, API and kind of processes, and no GPU.

`python vllm_program.py PIDS serve MODEL …` writes the ids of its processes to the file PIDS, and
what it was started with to PIDS.argv. It answers with the first words of a document.
"""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import uvicorn

from precis.environments.summaries.prompt import request_in
from precis.llm.server import ChatRequest, Choice, Completion, completions_app


async def complete(asked: ChatRequest) -> Completion:
    request = request_in(asked.messages)
    words = request.text.split()[: request.words_max]
    return Completion(asked.model, [Choice(" ".join(words))])


def main() -> None:
    pids, *arguments = sys.argv[1:]
    options = dict(itertools.pairwise(arguments))
    # vLLM's engine has a session of its own too, and is missed by whoever ends a process group.
    engine = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True
    )
    Path(pids).write_text(json.dumps([os.getpid(), engine.pid]))
    Path(f"{pids}.argv").write_text(json.dumps(arguments))
    name = options["--lora-modules"].partition("=")[0]
    print(f"serving {name} with {options['--max-model-len']} tokens", flush=True)
    app = completions_app(complete, lambda: [arguments[1], name], os.environ["VLLM_API_KEY"])
    uvicorn.run(app, host=options["--host"], port=int(options["--port"]), ws="none")


if __name__ == "__main__":
    main()
