"""The quality of contenders, how sure one can be of it, and who is ahead."""
