"""What is written down of runs and benchmarks: it knows nobody above it."""
