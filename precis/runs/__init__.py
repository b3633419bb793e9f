"""The store's knowledge of a run, and the means by which a run survives."""
