"""Local substitutes for hosted services in a rehearsal."""
