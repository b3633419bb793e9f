"""The commands that start Prefect or ask it, which need a checkout."""
