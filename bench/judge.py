"""What the judge's client costs, and that faults never become scores.

    python bench/judge.py             all of it
    python bench/judge.py compare     the notebook's protocol against ours, a step's judging
    python bench/judge.py faults      10,000 verdicts from a judge that fails 20 % of its requests
    python bench/judge.py memory      1,000 rollouts in one step, generated and judged

All of it judges summaries of the bundled corpus, by the lexical judge behind a `FaultyServer`. Both
are deterministic, so that verdicts can be compared one by one. Each command fails if what it is
there to show does not hold.
"""

import typer

from bench.judging.compare import compare
from bench.judging.faults import faults
from bench.judging.memory import memory

COMMANDS = (compare, faults, memory)

app = typer.Typer(add_completion=False, help=__doc__)
for command in COMMANDS:
    app.command()(command)


@app.callback(invoke_without_command=True)
def everything(context: typer.Context) -> None:
    """All commands, one after the other, where none is named."""
    if context.invoked_subcommand is None:
        for command in COMMANDS:
            print(f"-- {command.__name__}", flush=True)
            command()


if __name__ == "__main__":
    app()
