"""Games of TextArena: `games` runs in its own process, and `environment` plays them there."""
