"""The machines that a trainer runs on."""
