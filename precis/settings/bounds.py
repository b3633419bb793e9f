"""The numbers that settings may have."""

SEED_MIN = -(2**63)
SEED_MAX = 2**63 - 1
"""A seed has 64 bits: Prefect's server stores larger numbers, and can't list its runs any more."""
