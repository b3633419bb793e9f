"""Games of TextArena: `games` runs in a process of its own, and `environment` plays them there."""
