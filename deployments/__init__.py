"""How the flows get run: the `precis` command, the local Prefect server, deployment settings."""
