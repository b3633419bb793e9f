"""Where a trainer runs."""
