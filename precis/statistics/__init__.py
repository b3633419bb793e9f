"""How good a contender is, how sure one can be, and who is ahead."""
