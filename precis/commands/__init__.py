"""The commands of `precis` without Prefect; `main` lists them with those of a checkout."""
