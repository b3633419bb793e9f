"""The programs in `bench/` begin as their own words say."""

import os
import subprocess
import sys

from tests.support.repository import ROOT

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
