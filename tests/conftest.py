"""What all tests share."""

from hypothesis import settings

# How long an example takes on a machine that others use too says nothing about the code.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
