"""The programs that print the figures we claim."""

import sys
from pathlib import Path

# A package of the environment installs a `tests` of its own, which would shadow ours.
sys.path.insert(0, str(Path(__file__).parents[1]))
