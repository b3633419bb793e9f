"""The commands of `precis` that need no Prefect; `main` lists them with those of a checkout."""
