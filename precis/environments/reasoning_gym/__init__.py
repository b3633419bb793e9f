"""Puzzles of reasoning-gym: `puzzles` makes and scores them in a separate process."""
