"""Charts as inline SVG: no script, colours from the page's style sheet, a tooltip where a pointer finds a mark.

Text is HTML, so that it is readable on a telephone; a chart has only the drawing and is stretched to its place. The 24
columns of a drawing and those of its labels are the same 24 equal parts of one width, so they cannot drift.
Every number is written with at most one decimal: a page has thousands of them.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup

from spark_analytics.report.model import HostCell
from spark_analytics.report.number_format import clean, count
from spark_analytics.report.zone_times import HOURS, Clock

SHADES = 6
MAP_COLUMNS = 40
DAY_LABELS = 7
FEW_COLUMNS = 14
"""Columns that are as wide as their labels."""
_STEP = 12
READOUT = Markup('<p class="readout" aria-hidden="true"></p>')
"""Where the script shows the column at the pointer. Without a script the browser shows its tip."""


def bar(share: float, kind: str = "bar") -> Markup:
    """Draws a horizontal bar of `share` (0 to 1) of its cell's width, visible for every positive share."""
    width = 0 if share <= 0 else max(0.6, min(share, 1) * 100)
    return Markup(
        '<svg class="hbar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="track" width="100" height="8"/><rect class="{}" width="{}" height="8"/></svg>'
    ).format(kind, number(width))


def sparkline(values: Sequence[float], label: str = "") -> Markup:
    """Draws the days before and today from 0 up, with a dot for today, or nothing for less than two values."""
    if len(values) < 2:  # noqa: PLR2004
        return Markup()
    top = max(values) or 1
    last = len(values) - 1
    places = [(number(4 + 72 * place / last), number(18 - 14 * value / top)) for place, value in enumerate(values)]
    return Markup(
        '<svg class="spark" viewBox="0 0 80 22" role="img" aria-label="{0}"><title>{0}</title>'
        '<polyline points="{1}"/><circle cx="{2}" cy="{3}" r="2.6"/></svg>'
    ).format(label, " ".join(f"{x},{y}" for x, y in places), *places[-1])


def trend_bars(values: Sequence[float], tips: Sequence[str]) -> Markup:
    """Draws a small column for each day, the last one in another colour, each with its tip."""
    top, width = max(values) or 1, 80 / max(len(values), 1)
    drawn = []
    for index, (value, tip) in enumerate(zip(values, tips, strict=True)):
        height = max(26 * value / top, 1)
        kind = "bar" if index == len(values) - 1 else "past"
        column = Markup('<g><title>{}</title><rect class="{}" x="{}" y="{}" width="{}" height="{}"/></g>')
        drawn.append(
            column.format(tip, kind, number(width * index + 1), number(28 - height), number(width - 2), number(height))
        )
    return Markup('<svg viewBox="0 0 80 28" role="img" aria-label="{}">{}</svg>').format(
        "; ".join(tips), Markup("").join(drawn)
    )


def host_map(cells: Sequence[HostCell]) -> Markup:
    """Draws a square for each cell. Complete ones are one path: ten thousand hosts take a few kilobytes."""
    good, bad = [], []
    for index, cell in enumerate(cells):
        x, y = index % MAP_COLUMNS * _STEP, index // MAP_COLUMNS * _STEP
        if cell.status == "complete":
            good.append(f"M{x} {y}h10v10h-10z")
        else:
            among = f" (of {count(cell.hosts, 'host')})" if cell.hosts > 1 else ""
            tip = f"{clean(cell.worst, 80)}{among}: {cell.status.replace('_', ' ')}"
            square = Markup('<rect class="c-{}" x="{}" y="{}" width="10" height="10"><title>{}</title></rect>')
            bad.append(square.format(cell.status, x, y, tip))
    height = (max(len(cells) - 1, 0) // MAP_COLUMNS + 1) * _STEP
    return Markup(
        '<svg class="hosts" viewBox="0 0 {} {}" role="img" aria-label="{}"><path class="c-complete" d="{}"/>{}</svg>'
    ).format(
        MAP_COLUMNS * _STEP - 2, height, count(len(cells), "square") + " of hosts", "".join(good), Markup("").join(bad)
    )


def stacked_hours(series: Mapping[str, Sequence[int]], clock: Clock, unit: str = "lines") -> Markup:
    """Draws a column for each hour of the day, stacked from `series[class][hour]` with the first class on top."""
    hours = [{name: values[hour] for name, values in series.items()} for hour in range(HOURS)]
    top = nice_ceiling(max(sum(hour.values()) for hour in hours))
    columns = Markup("").join(
        _column(hour, top, index, f"{at}  {sum(hour.values()):,} {unit}")
        for index, (at, hour) in enumerate(zip(clock.hours(), hours, strict=True))
    )
    drawing = Markup(
        '<svg class="columns" viewBox="0 0 240 100" preserveAspectRatio="none" role="img" aria-label="{}">{}{}</svg>'
    ).format(f"{unit} by hour, {clock.timezone}", _grid(240), columns)
    return Markup('<div class="plot">{}{}{}{}</div>').format(_ticks(top), drawing, hour_labels(clock), READOUT)


def hour_labels(clock: Clock) -> Markup:
    """Labels every third hour of a row of 24 equal columns, each in the middle of its own column."""
    names = [at[:5].removesuffix(":00") for at in clock.hours()]
    labels = (Markup("<span>{}</span>").format(name if hour % 3 == 0 else "") for hour, name in enumerate(names))
    return Markup('<div class="scale" aria-hidden="true">{}</div>').format(Markup("").join(labels))


def _column(hour: Mapping[str, int], top: int, index: int, whole: str) -> Markup:
    parts, y = [], 100.0
    for kind, value in reversed(list(hour.items())):
        if value:
            height = max(value / top * 100, 0.8)
            y -= height
            block = Markup('<rect class="l-{}" x="{}" y="{}" width="8" height="{}"/>')
            parts.append(block.format(kind, index * 10 + 1, number(y), number(height)))
    amounts = ", ".join(f"{value:,} {kind}" for kind, value in hour.items() if value)
    tip = whole + (f": {amounts}" if amounts else "")
    # The tooltip covers the full height: a short column is hard to hit.
    hit = Markup('<rect class="hit" x="{}" width="10" height="100"/>').format(index * 10)
    return Markup("<g><title>{}</title>{}{}</g>").format(tip, hit, Markup("").join(parts))


def heat_row(hours: Sequence[int], most: int, name: str, clock: Clock) -> Markup:
    """24 cells, shaded by their lines against `most`, the largest cell of the map."""
    cell = Markup('<rect class="h{}" x="{}" width="9" height="18"><title>{} {:,}</title></rect>')
    cells = Markup("").join(
        cell.format(shade(lines, most), hour * 10 + 0.5, at, lines)
        for hour, (at, lines) in enumerate(zip(clock.hours(), hours, strict=True))
    )
    return Markup(
        '<svg class="heat" viewBox="0 0 240 18" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>'
    ).format(f"{name}: lines by hour", cells)


class DayColumn(NamedTuple):
    """The column of a day: parts of (class, value) from the bottom, a tip, and the page that a click opens."""

    name: str
    parts: Sequence[tuple[str, int]]
    tip: str
    page: str = ""
    before: int = 0  #: a paler column next to it: the same weekday of the week before

    @property
    def value(self) -> int:
        """The height."""
        return sum(value for _, value in self.parts)


def day_bars(days: Sequence[DayColumn], columns: int = FEW_COLUMNS) -> Markup:
    """A column for each day, oldest first. The axis is as long as `columns` at least."""
    top = nice_ceiling(max((max(day.value, day.before) for day in days), default=0))
    places = max(len(days), columns)
    drawn = [_grid(places * 10)]
    paired = any(day.before for day in days)
    for index, day in enumerate(days):
        blocks, y, width = [Markup('<rect class="hit" x="{}" width="10" height="100"/>').format(index * 10)], 100.0, 8
        block = Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}"/>')
        if paired:
            height, width = day.before / top * 100, 5
            blocks.append(block.format("ghost", number(index * 10 + 0.5), number(100 - height), 3.5, number(height)))
        for kind, value in day.parts:
            height = max(value / top * 100, 0.8 if value else 0)
            y -= height
            blocks.append(
                block.format(kind, number(index * 10 + (4.5 if paired else 1)), number(y), width, number(height))
            )
        column = Markup("<g><title>{}</title>{}</g>").format(day.tip, Markup("").join(blocks))
        link = Markup('<a href="{}" aria-label="{}">{}</a>')
        drawn.append(link.format(day.page, f"{day.name}: {day.tip}", column) if day.page else column)
    drawing = Markup(
        '<svg class="columns" viewBox="0 0 {} 100" preserveAspectRatio="none" role="{}" aria-label="lines by day">'
        "{}</svg>"
    ).format(places * 10, "group" if any(day.page for day in days) else "img", Markup("").join(drawn))
    labels = _day_labels([day.name for day in days], places)
    return Markup('<div class="plot">{}{}{}{}</div>').format(_ticks(top), drawing, labels, READOUT)


def _day_labels(days: Sequence[str], places: int) -> Markup:
    """Labels the newest day and every so many before it, so that they fit on a telephone, each below its column."""
    every, last = math.ceil(places / DAY_LABELS), len(days) - 1
    names = [name[5:] if (last - index) % every == 0 else "" for index, name in enumerate(days)]
    names += [""] * (places - len(days))
    labels = Markup("").join(Markup("<span>{}</span>").format(name) for name in names)
    many = " many" if places > FEW_COLUMNS else ""
    return Markup('<div class="days{}" aria-hidden="true">{}</div>').format(many, labels)


def _grid(width: int) -> Markup:
    line = Markup('<line class="grid" x1="0" x2="{0}" y1="{1}" y2="{1}"/>')
    return Markup("").join(line.format(width, y) for y in (0, 50))


def _ticks(top: int) -> Markup:
    marks = Markup("").join(Markup("<span>{}</span>").format(short(top * part / 2)) for part in (2, 1, 0))
    return Markup('<div class="ticks" aria-hidden="true">{}</div>').format(marks)


def shade(lines: int, most: int) -> int:
    """0 for no lines, 6 for `most`, one less for each half power of ten below it."""
    if lines <= 0 or most <= 0:
        return 0
    return max(1, SHADES + math.ceil(2 * math.log10(lines / most) - 0.5))


def shade_legend(most: int) -> list[tuple[int, str]]:
    """(shade, fewest lines of it) of a map whose largest cell has `most` lines: `0`, `1`, `32`, `100` ..."""
    found: dict[int, int] = {0: 0}
    for step in range(SHADES, 0, -1):  # the fewest lines of a shade: shade() inverted
        fewest = max(1, math.ceil(most * 10 ** ((step - SHADES - 0.5) / 2) * (1 + 1e-12))) if most else 0
        fewest = next((n for n in (fewest - 1, fewest, fewest + 1) if n > 0 and shade(n, most) == step), 0)
        if fewest and step > 1:
            found[step] = fewest
    if most and shade(1, most) == 1:
        found[1] = 1
    return [(step, f"{lines:,}" + ("" if step == 0 else "+")) for step, lines in sorted(found.items())]


def nice_ceiling(value: float) -> int:
    """The smallest round number that is not below `value` and whose quarters are round: 4, 8, 12, 16, 20, 24 ..."""
    scale = 1
    while True:
        for step in (4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 60, 64, 80):
            if step * scale >= value:
                return step * scale
        scale *= 10 if scale > 1 else 25


def short(amount: float) -> str:
    """`1.2M`, `40k`, `7`: for axes."""
    for limit, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if amount >= limit:
            return f"{amount / limit:.3g}{suffix}"
    return f"{amount:.3g}"


def number(value: float) -> str:
    """At most one decimal."""
    return f"{value:.1f}".removesuffix(".0")
