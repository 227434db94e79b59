"""Charts as inline SVG: no script, colours from the page's style sheet, a tooltip on every mark.

Text is HTML wherever it can be, so that it stays readable on a telephone; a chart holds only what must be drawn.
"""

import math
from collections.abc import Mapping, Sequence

from markupsafe import Markup, escape

WIDTH = 960
_AXIS = 46
_HEIGHT = 190
_BASE = 160
_SHADES = 6


def bar(share: float, kind: str = "bar") -> Markup:
    """A horizontal bar of `share` (0 to 1) of its cell's width; something is never drawn as nothing."""
    width = 0 if share <= 0 else max(0.6, min(share, 1) * 100)
    return Markup(
        '<svg class="hbar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="track" width="100" height="8"/><rect class="{}" width="{}" height="8"/></svg>'
    ).format(kind, _number(width))


def stacked_hours(hours: Sequence[Mapping[str, int]], levels: Sequence[str]) -> Markup:
    """A column for each hour, stacked by level: `hours[i][level]` lines, the worst level on top."""
    top = nice_ceiling(max((sum(hour.values()) for hour in hours), default=0))
    marks = [_grid(top)]
    step = (WIDTH - _AXIS) / max(len(hours), 1)
    for index, hour in enumerate(hours):
        x = _AXIS + index * step
        marks.append(_column(hour, levels, top, x + 2, step - 4, f"{index:02d}:00"))
        if index % 3 == 0:
            marks.append(_label(x + step / 2, _BASE + 18, f"{index:02d}"))
    return _svg(_HEIGHT, Markup("").join(marks), "Lines by hour and level")


def _column(hour: Mapping[str, int], levels: Sequence[str], top: int, x: float, width: float, name: str) -> Markup:
    parts, y = [], float(_BASE)
    for level in reversed(levels):
        lines = hour.get(level, 0)
        if lines:
            height = max(lines / top * (_BASE - 12), 0.8)
            y -= height
            parts.append(
                Markup('<rect class="l-{}" x="{}" y="{}" width="{}" height="{}"/>').format(
                    level, _number(x), _number(y), _number(width), _number(height)
                )
            )
    said = ", ".join(f"{hour[level]:,} {level}" for level in levels if hour.get(level))
    tip = f"{name}  {sum(hour.values()):,} lines" + (f": {said}" if said else "")
    # The whole height answers the pointer: a short column is hard to hit.
    hit = Markup('<rect class="hit" x="{}" y="12" width="{}" height="{}"/>').format(
        _number(x), _number(width), _BASE - 12
    )
    return Markup("<g><title>{}</title>{}{}</g>").format(tip, hit, Markup("").join(parts))


def _grid(top: int) -> Markup:
    lines = []
    for quarter in range(5):
        y = _BASE - quarter * (_BASE - 12) / 4
        lines.append(
            Markup('<line class="grid" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(_AXIS, WIDTH, _number(y), _number(y))
        )
        lines.append(
            Markup('<text class="axis end" x="{}" y="{}">{}</text>').format(
                _AXIS - 8, _number(y + 4), short(top * quarter / 4)
            )
        )
    return Markup("").join(lines)


def heat_row(hours: Sequence[int], most: int, name: str) -> Markup:
    """24 cells of one host, shaded by its lines against `most`, the largest cell of the map."""
    cells = Markup("").join(
        Markup('<rect class="h{}" x="{}" width="36" height="18" rx="3"><title>{} {:02d}:00  {}</title></rect>').format(
            shade(lines, most), hour * 40 + 2, name, hour, f"{lines:,} lines"
        )
        for hour, lines in enumerate(hours)
    )
    return Markup(
        '<svg class="heat" viewBox="0 0 960 18" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>'
    ).format(f"{name}: lines by hour", cells)


def shade(lines: int, most: int) -> int:
    """0 for nothing, 6 for `most`, one less for each half power of ten below it: hosts differ by powers of ten."""
    if lines <= 0 or most <= 0:
        return 0
    return max(1, _SHADES + math.ceil(2 * math.log10(lines / most) - 0.5))


def nice_ceiling(value: float) -> int:
    """The smallest of 4, 8, 12, 20, 40, 60, 80, 100, 200 ... that is not below `value`: its quarters are round."""
    scale = 1
    while True:
        for step in (4, 8, 12, 20, 40, 60, 80):
            if step * scale >= value:
                return step * scale
        scale *= 10 if scale > 1 else 25


def short(number: float) -> str:
    """`1.2M`, `40k`, `7`: for axes."""
    for limit, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= limit:
            return f"{number / limit:.3g}{suffix}"
    return f"{number:.3g}"


def _label(x: float, y: float, text: str) -> Markup:
    return Markup('<text class="axis mid" x="{}" y="{}">{}</text>').format(_number(x), _number(y), text)


def _svg(height: int, content: Markup, name: str) -> Markup:
    return Markup('<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        WIDTH, height, escape(name), content
    )


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
