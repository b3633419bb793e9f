"""Environments: what a policy is trained to do, and the recorder through which they ask it."""
