"""The MCP server of `mcp_agent.py`: the rooms of an office, some of them free.

`python examples/mcp_server.py` speaks over stdio, `python examples/mcp_server.py 8000` over HTTP at
http://127.0.0.1:8000/mcp.
"""

import sys
from typing import Literal

from mcp.server import MCPServer

Day = Literal["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"]
Room = Literal["Alder", "Birch", "Cedar", "Damson"]

FREE = {
    "Monday": {"Birch"},
    "Tuesday": {"Alder", "Damson"},
    "Wednesday": {"Cedar"},
    "Thursday": {"Alder", "Birch"},
    "Friday": {"Damson"},
}
SEATS = {"Alder": 4, "Birch": 8, "Cedar": 12, "Damson": 20}

server = MCPServer("office", log_level="ERROR")


@server.tool()
def list_free_rooms(day: Day) -> str:
    """List the rooms that are free on a day."""
    rooms = [f"{room} with {SEATS[room]} seats" for room in sorted(FREE[day])]
    return f"Free on {day}: {', '.join(rooms) or 'no room'}."


@server.tool()
def book_room(room: Room, day: Day) -> str:
    """Book a room for a day."""
    if room not in FREE[day]:
        return f"{room} is taken on {day}."
    FREE[day].remove(room)
    return f"{room} is booked for {day}."


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run()
