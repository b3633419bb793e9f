"""The embedded policy of summaries: picks sentences."""
