"""How long a benchmark takes.

    python bench/benchmark.py             all of it
    python bench/benchmark.py hosted      91 documents by six hosted contenders and one judge
    python bench/benchmark.py rehearsed   the whole flow: 8 contenders, 32 documents, this machine

The hosted ones are servers of a process of their own that answer as late as real ones do. Each
command fails if what it is there to show does not hold.
"""

from bench.contending.hosted import hosted
from bench.contending.rehearsed import rehearsed
from bench.program import program

app = program(__doc__, (hosted, rehearsed))

if __name__ == "__main__":
    app()
