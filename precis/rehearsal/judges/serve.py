"""The rehearsal's rule-based judge, as an OpenAI-compatible provider on the loopback."""

import os
from typing import Annotated

import typer

from precis.environments.summaries.judge.endpoint import LEXICAL_MODEL
from precis.llm.server import completions_app
from precis.processes.child import TOKEN_VARIABLE, serve
from precis.rehearsal.judges.judge import lexical_judge


def main(
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1; 0 takes a free one.")] = 0,
    with_parent: Annotated[bool, typer.Option(help="Exit when standard input ends.")] = False,
) -> None:
    """Serve the judge; PRECIS_TOKEN has the bearer token, without which none is required."""
    key = os.environ.get(TOKEN_VARIABLE)
    app = completions_app(lexical_judge, lambda: [LEXICAL_MODEL], key)
    serve(app, port, with_parent=with_parent)


if __name__ == "__main__":
    typer.run(main)
