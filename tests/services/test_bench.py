"""The programs in `bench/` begin as the documentation and their own words say."""

import os
import re
import subprocess
import sys

from tests.support.repository import PAGES, ROOT

PROGRAMS = sorted((ROOT / "bench").glob("*.py"))

_BEGIN = """
import runpy, sys
for program in sys.argv[1:]:
    runpy.run_path(program, run_name="begun")
"""


def test_every_program_begins_where_only_its_own_folder_is_on_the_path() -> None:
    # As `python bench/NAME.py` has it.
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "bench"), "PYTHONSAFEPATH": "1"}
    command = [sys.executable, "-c", _BEGIN, *map(str, PROGRAMS)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_program_is_called_alike_wherever_it_is_named() -> None:
    for source in (*PAGES, *PROGRAMS):
        for before, name in re.findall(r"(.*)python bench/(\w+\.py)", source.read_text()):
            assert (ROOT / "bench" / name).exists()
            assert "PYTHONPATH" not in before, f"{source.name}: {name}"
