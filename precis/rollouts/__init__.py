"""From scenarios to scored groups; of an environment it knows the protocol alone."""
