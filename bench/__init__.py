"""The programs that print the figures we claim."""

import sys
from pathlib import Path

# Some package of the environment installs one called `tests`, which would come before ours.
sys.path.insert(0, str(Path(__file__).parents[1]))
