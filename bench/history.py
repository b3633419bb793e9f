"""A thousand runs and nights of history: how long it takes to look at them.

    python bench/history.py             all of it
    python bench/history.py runs        `precis runs` on a folder, on a bucket, and on one far away
    python bench/history.py nights      a benchmark is compared with those before it
    python bench/history.py pages       Prefect's pages

`runs --beside PATH` takes turns with the `precis` of another version.
"""

from bench.histories.nights import nights
from bench.histories.pages import pages
from bench.histories.runs import runs
from bench.program import program

app = program(__doc__, (runs, nights, pages))

if __name__ == "__main__":
    app()
