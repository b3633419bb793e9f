"""The version of the code: the commit of this checkout."""

import subprocess
from functools import cache
from pathlib import Path


@cache  # the code of this process, whatever becomes of the checkout
def code_commit() -> str:
    """Return the commit of this checkout, with `-dirty` if it has changes; empty elsewhere."""
    root = Path(__file__).parents[1]
    if not (root / ".git").exists():
        return ""  # installed; a repository around it would be another project's
    git = ("git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")
    try:
        done = subprocess.run(git, capture_output=True, text=True)
    except OSError:  # no git here
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
