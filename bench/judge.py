"""What the judge's client costs, and that faults never become scores.

    python bench/judge.py             all of it
    python bench/judge.py compare     the notebook's protocol against ours, a step's judging
    python bench/judge.py plain       which answers are ruled without a grader, and if any wrongly
    python bench/judge.py faults      10,000 verdicts from a judge that fails 20 % of its requests
    python bench/judge.py memory      1,000 rollouts in one step, generated and judged

All of it judges summaries of the bundled corpus, by a made-up model (`bench/judging/model.py`)
behind a `FaultyServer`. Both are deterministic, so that verdicts can be compared one by one. Each
command fails if what it is there to show does not hold.
"""

from bench.judging.compare import compare
from bench.judging.faults import faults
from bench.judging.memory import memory
from bench.judging.plain import plain
from bench.program import program

app = program(__doc__, (compare, plain, faults, memory))

if __name__ == "__main__":
    app()
