"""How long the tests wait for what must come."""

PATIENCE_S = 900.0
"""Ten times what anything takes here on two idle cores: a machine that others use too is no fault
of the code's, and how fast the code is, `bench/` measures."""
