"""The flows: one a file, each a table of contents of what it does."""
