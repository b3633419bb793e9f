"""The embedded policy of summaries, which picks sentences."""
