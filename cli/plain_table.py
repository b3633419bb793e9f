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
        return ["  ".join(map(_align, self._names, row, widths)).rstrip() for row in self._rows]


def _align(name: str, cell: str, width: int) -> str:
    """Return a column's cell with spaces: names stand on the left, figures on the right."""
    spaces = " " * (width - cell_len(cell))
    return cell + spaces if name in ("model", "held by", "") else spaces + cell
