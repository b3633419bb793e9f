"""A history of many runs and nights, and how long it takes to look at it."""
