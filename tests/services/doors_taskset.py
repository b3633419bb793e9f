# mypy: ignore-errors
"""A taskset of verifiers: three doors, each behind a hint, opened by a tool that all games share.

It runs in verifiers' own environment, as a package of anybody's would.
"""

import random
from collections.abc import Iterator
from typing import Literal

import verifiers.v1 as vf
from pydantic import Field

BEHIND = {"red": "left", "blue": "right"}


class DoorsData(vf.TaskData):
    """What is behind the doors."""

    hints: list[str]


class DoorsState(vf.State):
    """One game, as its tool sees it."""

    hints: list[str] = Field(default_factory=list)
    opened: int = 0
    over: bool = False


class Doors(vf.Toolset[vf.SharedToolsetConfig, DoorsState]):
    """The doors."""

    @vf.tool
    async def open_door(self, side: Literal["left", "right"]) -> str:
        """Open the door on one side."""
        if side != BEHIND[self.state.hints[self.state.opened]]:
            self.state.over = True
            return "A wall."
        self.state.opened += 1
        self.state.over = self.state.opened == len(self.state.hints)
        if self.state.over:
            return "You are out."
        return f"It opens. The hint is {self.state.hints[self.state.opened]}. Which door?"


class DoorsTask(vf.Task[DoorsData, DoorsState]):
    """One game."""

    async def setup(self, trace: vf.Trace, runtime: vf.Runtime) -> None:
        """Put the hints where the tool finds them."""
        trace.state.hints = self.data.hints

    @vf.stop
    async def is_over(self, trace: vf.Trace) -> bool:
        """Whether there is no door left, or a wall was met."""
        return bool(trace.state.over)

    @vf.reward
    async def doors(self, trace: vf.Trace) -> float:
        """The share of doors that were opened."""
        return trace.state.opened / len(self.data.hints)

    @vf.metric
    async def walls(self, trace: vf.Trace) -> float:
        """Whether it met a wall."""
        return float(trace.state.opened < len(self.data.hints))


class DoorsConfig(vf.TasksetConfig):
    """How many doors."""

    count: int = 3


class DoorsTaskset(vf.Taskset[DoorsTask, DoorsConfig]):
    """Games without end."""

    INFINITE = True

    @classmethod
    def toolsets(cls, config: DoorsConfig) -> list[vf.Toolset]:
        """Serve all games by one process."""
        return [Doors(vf.SharedToolsetConfig())]

    def load(self) -> Iterator[DoorsTask]:
        """Draw the hints of each game by its number."""
        number = 0
        while True:
            draw = random.Random(number)
            hints = [draw.choice(list(BEHIND)) for _ in range(self.config.count)]
            prompt = f"The hint is {hints[0]}. Which door?"
            yield DoorsTask(DoorsData(name=f"doors-{number}", prompt=prompt, hints=hints))
            number += 1


__all__ = ["DoorsTaskset"]

if __name__ == "__main__":
    Doors.run()
