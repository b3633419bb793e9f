"""The commands that start or query Prefect, which need a checkout."""
