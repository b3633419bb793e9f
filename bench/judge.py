"""What the judge's client costs, and which answers it rules without a grader.

    python bench/judge.py             all of it
    python bench/judge.py compare     the notebook's protocol against ours, a step's judging
    python bench/judge.py plain       which answers are ruled without a grader, and if any wrongly

All of it judges summaries of the bundled corpus, by a made-up model (`bench/judging/model.py`)
behind a `FaultyServer`. Both are deterministic, so that verdicts can be compared one by one. Each
command fails if what it is there to show does not hold.
"""

from bench.judging.compare import compare
from bench.judging.plain import plain
from bench.program import program

app = program(__doc__, (compare, plain))

if __name__ == "__main__":
    app()
