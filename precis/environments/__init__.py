"""Environments, the tasks that policies are trained for, and the recorder of their calls."""
