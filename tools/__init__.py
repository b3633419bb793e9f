"""Programs that make what is in the repository: the bundled corpus, the reference of settings."""
