"""The records of runs and benchmarks; they import nothing above them."""
