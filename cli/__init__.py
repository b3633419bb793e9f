"""The `precis` command."""
