"""Child processes: how they are started, watched, and ended whatever happens."""
