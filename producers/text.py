"""Words and tables for a terminal, a pipe or a file. What a model wrote is shown and never obeyed."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Sequence
from datetime import UTC, datetime

#: Categories that could move a cursor, recolour a terminal or reorder a line: controls, formats
#: (bidirectional overrides among them), surrogates, private use, line and paragraph separators.
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})


def clean(text: str, *, lines: bool = False) -> str:
    """`text` with every character that a terminal might obey written as an escape.

    Parameters
    ----------
    lines
        Keep line ends and tabs, as for a program's source.
    """
    if text.isascii() and text.isprintable():
        return text
    kept = "\n\t" if lines else ""
    return "".join(c if c in kept or unicodedata.category(c) not in _UNSAFE else _escape(c) for c in text)


def _escape(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def short(text: str, width: int) -> str:
    """`text` on one line, cut at `width` characters."""
    text = clean(text)
    return text if len(text) <= width else text[: width - 3] + "..."


def number(value: float | None, digits: int = 6) -> str:
    """A score with that many significant digits, or ``-``."""
    return "-" if value is None else f"{value:.{digits}g}"


def usd(value: float) -> str:
    return f"${value:.4f}" if abs(value) < 1 else f"${value:.2f}"


def clock(at: int) -> str:
    """A time (ns since the epoch) in UTC to the second."""
    return datetime.fromtimestamp(at // 1_000_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def seconds(value: float) -> str:
    """A duration as people say it."""
    if value < 60:
        return f"{value:.1f} s"
    minutes, rest = divmod(int(value), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> str:
    """Aligned columns with two spaces between; `right` are the columns of numbers."""
    cells = [[clean(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in [list(headers), *cells]) for i in range(len(headers))]

    def line(row: Sequence[str]) -> str:
        parts = [c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
        return "  ".join(parts).rstrip()

    return "\n".join([line(headers), *map(line, cells)])


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> None:
    """A table on standard output: drawn by rich on a terminal, plain aligned lines elsewhere."""
    if not sys.stdout.isatty():
        print(table(headers, rows, right=right))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for index, header in enumerate(headers):
        drawn.add_column(Text(header), justify="right" if index in right else "left", overflow="fold")
    for row in rows:
        # Text is never parsed for markup, unlike a plain string.
        drawn.add_row(*(Text(clean(cell)) for cell in row))
    Console(markup=False, highlight=False, emoji=False).print(drawn)
