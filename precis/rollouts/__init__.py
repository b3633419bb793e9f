"""From scenarios to scored groups, by the environment's protocol only."""
