"""A training run: its state, its steps, and where it continues."""
