"""What the store knows of a run, and how a run survives."""
