"""A training run at work: its state, its steps, and where it continues."""
