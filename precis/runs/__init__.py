"""Runs as their store shows them: to list, to study, to take away, to go back in."""
