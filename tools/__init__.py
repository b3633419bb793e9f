"""Programs that generate files of the repository: the bundled corpus, the reference of settings."""
