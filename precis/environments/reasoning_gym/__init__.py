"""Puzzles of reasoning-gym: `puzzles` makes and scores them in its own process."""
