"""Games of TextArena: `games` runs in a separate process, and `environment` plays them there."""
