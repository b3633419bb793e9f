"""A table for a terminal, and for what reads its lines."""

from rich.cells import cell_len


class PlainTable:
    """A table without lines whose columns are as wide as their longest cells.

    rich's own take a second for a thousand rows.
    """

    def __init__(self, *columns: str) -> None:
        self._names = columns
        self._rows: list[tuple[str, ...]] = [columns]

    def add_row(self, *cells: str) -> None:
        """Add a row of as many cells as there are columns."""
        self._rows.append(cells)

    def lines(self) -> list[str]:
        """Return the names of the columns, and each row: in a line, however long it gets."""
        widths = [max(map(cell_len, column)) for column in zip(*self._rows, strict=True)]
        lines = []
        for row in self._rows:
            cells = []
            for name, cell, width in zip(self._names, row, widths, strict=True):
                spaces = " " * (width - cell_len(cell))
                is_name = name in ("model", "held by", "")  # on the left, figures on the right
                cells.append(cell + spaces if is_name else spaces + cell)
            lines.append("  ".join(cells).rstrip())
        return lines
