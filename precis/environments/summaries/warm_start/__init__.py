"""The warm start: summaries that are worth imitating, before the first step of reinforcement."""
