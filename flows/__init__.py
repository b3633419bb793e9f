"""The flows: one a file, each a table of contents of its steps."""
