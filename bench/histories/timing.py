"""What may take how long."""

LIMIT_S = 2.0
"""What somebody waits for, or a night's benchmark, may take."""
