"""The trainer: an `art.Backend` behind HTTP, and the client that is an `art.Backend` again."""
