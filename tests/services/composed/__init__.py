"""The shared set-up of compose.yaml, started: as containers, or its parts as processes."""
