"""Tables and signed lines for people. A table fits the terminal, and no number, host name or state word is cut."""

import sys
from collections.abc import Collection, Iterator, Sequence
from typing import Literal, NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from shipper.units import printable

LEAST_WIDTH = 24
"""A wrapped column is not made narrower than this while another column can go."""
UNLIMITED = 100_000  # columns, to measure what a table would like to have
PLAIN_WIDTH = 8192
"""Width of output that is no terminal, in columns: no cell is folded there, and a path may have 4,096."""
STACK = ""
"""In `give_up`: the columns of `above` move to a line of their own above the others."""


class Sign(NamedTuple):
    """The character that a line begins with, and the style of the line."""

    character: str
    style: str = ""


GOOD = Sign("+", "green")
SAME = Sign("=", "dim")
CHANGED = Sign("~", "yellow")
REPLACED = Sign("±", "yellow")
REMOVED = Sign("-", "red")
BAD = Sign("!", "bold red")


def standard_output(*, color: bool | None = None) -> Console:
    """Standard output; `color`: whether to use colours, None: on a terminal."""
    width = None if sys.stdout.isatty() else PLAIN_WIDTH
    if color is None:
        return Console(file=sys.stdout, width=width, highlight=False)
    return Console(
        file=sys.stdout, width=width, force_terminal=color, no_color=not color, color_system="standard", highlight=False
    )


def print_signed(console: Console, sign: Sign, text: str, *, hint: str = "") -> None:
    """A line that begins with `sign`, and below it what to do next."""
    console.print(Text(printable(f"{sign.character} {text}"), style=sign.style), soft_wrap=True)
    if hint:
        console.print(Text(printable(f"    {hint}")), soft_wrap=True)


def texts(cells: Sequence[str]) -> list[Text]:
    """The cells of a row, as any terminal can show them."""
    return [Text(printable(cell)) for cell in cells]


def fitted(
    console: Console,
    columns: Sequence[str],
    rows: Sequence[Sequence[Text]],
    *,
    numbers: Collection[str] = (),
    wrapped: str = "",
    above: Collection[str] = (),
    give_up: Sequence[str] = (),
    boxed: bool = False,
) -> list[Text]:
    """The lines of a table as wide as `console`, without trailing blanks.

    Column `wrapped` takes the width that is left. If the columns do not fit, `give_up` is done from its start, as
    far as needed: a name is a column that is left out, STACK moves the columns of `above`. What does not fit even then
    is wider than the console, and is not cut.
    """
    kept, is_stacked = list(columns), False
    steps = iter(give_up)
    while True:
        below = [name for name in kept if not (is_stacked and name in above)]
        table = _table(columns, rows, below, numbers, wrapped, boxed=boxed and not is_stacked)
        room = console.width - _width(console, table, wrapped, LEAST_WIDTH)
        step = next(steps, None) if room < 0 else None
        if step is None:
            break
        if step == STACK:
            is_stacked = True
        else:
            kept.remove(step)
    width = _width(console, table, wrapped, LEAST_WIDTH + max(0, room))
    lines = rendered(console, table, width=max(1, width)) if below else []
    return list(_stacked(columns, rows, above, lines)) if is_stacked else lines


def print_lines(console: Console, lines: Sequence[Text]) -> None:
    """Print `lines` as they are: what is wider than the console is folded by the terminal, not cut."""
    for line in lines:
        console.print(line, soft_wrap=True)


def rendered(console: Console, table: Table, *, width: int = 0) -> list[Text]:
    """The lines of `table` without trailing blanks, `width` columns wide (0: the console's width)."""
    options = console.options.update(width=width or console.width)
    lines = []
    for segments in console.render_lines(table, options, pad=False):
        line = Text(no_wrap=True, overflow="ignore")
        for segment in segments:
            line.append(segment.text, segment.style)
        line.rstrip()
        lines.append(line)
    return lines


def _table(
    columns: Sequence[str],
    rows: Sequence[Sequence[Text]],
    chosen: Sequence[str],
    numbers: Collection[str],
    wrapped: str,
    *,
    boxed: bool,
) -> Table:
    """The table with one choice of columns."""
    table = Table(box=Table().box if boxed else None, header_style="bold", pad_edge=boxed)
    for name in chosen:
        justify: Literal["right", "left"] = "right" if name in numbers else "left"
        table.add_column(name, justify=justify, no_wrap=name != wrapped, overflow="fold")
    places = [columns.index(name) for name in chosen]
    for row in rows:
        table.add_row(*(row[place] for place in places))
    return table


def _width(console: Console, table: Table, wrapped: str, at_most: int) -> int:
    """How wide `table` is with the column `wrapped` at most so wide."""
    for column in table.columns:
        if column.header == wrapped:
            column.max_width = at_most
    return console.measure(table, options=console.options.update(width=UNLIMITED)).maximum


def _stacked(
    columns: Sequence[str], rows: Sequence[Sequence[Text]], above: Collection[str], lines: Sequence[Text]
) -> Iterator[Text]:
    """The names and the rows, each with its cells of `above` first; these once for rows that have the same."""
    places = [place for place, name in enumerate(columns) if name in above]
    heads = [Text("  ".join(columns[place] for place in places), "bold")]
    heads += [Text("  ").join(row[place] for place in places if row[place].plain) for row in rows]
    before = None
    for number, head in enumerate(heads):
        if head != before:
            yield Text.assemble(head, no_wrap=True, overflow="ignore")
        before = head
        if number < len(lines):
            yield Text.assemble("  ", lines[number], no_wrap=True, overflow="ignore")
