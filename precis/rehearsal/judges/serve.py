"""The rehearsal's rule-based judge, as an OpenAI-compatible provider on the loopback."""

import os
from typing import Annotated, Any

import typer

from precis.environments.summaries.judge.endpoint import LEXICAL_MODEL
from precis.llm.server import ApiError, ChatRequest, Completion, completions_app
from precis.processes.child import TOKEN_VARIABLE, serve
from precis.rehearsal.judges.judge import lexical_judge


def standins_app(key: str | None) -> Any:
    """Return the judge as an ASGI app, which requires the bearer token, if given."""

    async def complete(request: ChatRequest) -> Completion:
        if request.model != LEXICAL_MODEL:
            raise ApiError(404, f"No model {request.model!r} here.", "model_not_found")
        return await lexical_judge(request)

    return completions_app(complete, lambda: [LEXICAL_MODEL], key)


def main(
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1; 0 takes a free one.")] = 0,
    with_parent: Annotated[bool, typer.Option(help="Exit when standard input ends.")] = False,
) -> None:
    """Serve the judge; PRECIS_TOKEN has the bearer token, without which none is required."""
    app = standins_app(os.environ.get(TOKEN_VARIABLE))
    serve(app, port, with_parent=with_parent)


if __name__ == "__main__":
    typer.run(main)
