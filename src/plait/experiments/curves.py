"""A suite's scores against the number of training rows: a panel for each column, in it a line for each method."""

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from plait.experiments.entries import SuiteTable
from plait.experiments.figure import pixels, round_axis, shorten, text_width, xml_text
from plait.recipe.sizes import sized_name

__all__ = ["SizePoint", "draw_curves", "size_points"]

_MARGIN, _TOP = 24, 96
_WIDTH, _HEIGHT = 270, 190  # of a panel
_GAP = 76  # between panels
_PANELS = 3  # side by side
_BELOW = 92  # a panel: its numbers, and the heading of the next
_SHIFT = 5  # between the intervals of two methods, so that both are seen
_STYLE = """
.curves text { font-family: system-ui, sans-serif; font-size: 13px; fill: #1f2328 }
.curves .large { font-size: 17px; font-weight: 600 }
.curves .heading { font-weight: 600 }
.curves .small { font-size: 11px; fill: #59636e; font-variant-numeric: tabular-nums }
.curves .back { fill: #ffffff }
.curves .grid { stroke: #dfe3e8; stroke-width: 1 }
.curves .line { fill: none; stroke: currentColor; stroke-width: 2; stroke-linejoin: round }
.curves .interval { stroke: currentColor; stroke-width: 2; stroke-linecap: round; opacity: 0.45 }
.curves .dot { fill: currentColor }
.method-0 { color: #0969da } .method-1 { color: #bc4c00 } .method-2 { color: #1a7f37 }
.method-3 { color: #8250df } .method-4 { color: #cf222e } .method-5 { color: #57606a }
@media (prefers-color-scheme: dark) {
  .curves text { fill: #e6edf3 }
  .curves .small { fill: #9198a1 }
  .curves .back { fill: #0d1117 }
  .curves .grid { stroke: #2f353d }
  .method-0 { color: #58a6ff } .method-1 { color: #f0883e } .method-2 { color: #3fb950 }
  .method-3 { color: #d2a8ff } .method-4 { color: #ff7b72 } .method-5 { color: #9198a1 }
}
"""
_COLOURS = 6


@dataclass(frozen=True)
class SizePoint:
    """The mean score of a method on so many training rows."""

    method: str
    column: str  # its heading
    rows: int
    score: float
    low: float | None = None
    high: float | None = None

    @property
    def values(self) -> list[float]:
        """Everything that the axis must include."""
        return [value for value in (self.score, self.low, self.high) if value is not None]

    @property
    def description(self) -> str:
        """The point in words, for screen readers and tooltips."""
        interval = f" ({self.low:.3f} to {self.high:.3f})" if self.low is not None and self.high is not None else ""
        return f"{self.method}, {self.column}, {self.rows:,} rows: {self.score:.3f}{interval}"


def size_points(table: SuiteTable) -> list[SizePoint]:
    """What was measured of the rows that are trained on several sizes; nothing if there are no two sizes."""
    sizes = {row.name: size for row in table.rows if not row.free and (size := table.suite.train_rows_of(row.name))}
    points = []
    for row in table.rows:
        for column, heading in table.columns.items():
            size, entry = sizes.get(row.name), row.entries[column]
            if size is not None and entry.mean is not None:
                method = row.name.removesuffix(sized_name("", size))
                points.append(SizePoint(method, heading, size, entry.mean, *(entry.interval or (None, None))))
    return points if len({point.rows for point in points}) > 1 else []


def draw_curves(title: str, points: Sequence[SizePoint]) -> str:
    """The SVG of the curves; methods and columns are in the order of the points."""
    columns = list(dict.fromkeys(point.column for point in points))
    methods = list(dict.fromkeys(point.method for point in points))
    sizes = sorted({point.rows for point in points})
    lines = -(-len(columns) // _PANELS)
    wide = _MARGIN + 40 + min(len(columns), _PANELS) * (_WIDTH + _GAP)
    high = _TOP + lines * (_HEIGHT + _BELOW)
    key = f"curves-{zlib.crc32(title.encode(errors='replace')):08x}"
    about = f"Scores of {', '.join(methods)} on {', '.join(f'{size:,}' for size in sizes)} training rows."
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="curves" viewBox="0 0 {wide} {high}" width="{wide}" '
        f'height="{high}" role="img" aria-labelledby="{key}-title" aria-describedby="{key}-about">',
        f'<title id="{key}-title">{xml_text(title)}</title>',
        f'<desc id="{key}-about">{xml_text(about)}</desc>',
        f"<style>{_STYLE}</style>",
        f'<rect class="back" width="{wide}" height="{high}"/>',
        f'<text class="large" x="{_MARGIN}" y="34">{xml_text(title)}</text>',
        *_draw_legend(methods),
    ]
    for number, column in enumerate(columns):
        left = _MARGIN + 40 + number % _PANELS * (_WIDTH + _GAP)
        top = _TOP + number // _PANELS * (_HEIGHT + _BELOW)
        parts += _draw_panel(column, [point for point in points if point.column == column], methods, sizes, left, top)
    return "\n".join([*parts, "</svg>", ""])


def _draw_legend(methods: Sequence[str]) -> list[str]:
    """A dot and the name of every method, side by side."""
    parts, x = [], float(_MARGIN + 5)
    for number, method in enumerate(methods):
        parts.append(f'<g class="method-{number % _COLOURS}"><circle class="dot" cx="{pixels(x)}" cy="60" r="4"/></g>')
        parts.append(f'<text class="small" x="{pixels(x + 10)}" y="64">{xml_text(method)}</text>')
        x += 34 + text_width(method, 11)
    return parts


def _draw_panel(
    column: str, points: Sequence[SizePoint], methods: Sequence[str], sizes: Sequence[int], left: float, top: float
) -> list[str]:
    """Axes, then the line and the intervals of each method."""
    axis = round_axis((value for point in points for value in point.values), 0)
    bottom, low, high = top + _HEIGHT, axis.first * axis.step, axis.last * axis.step
    span = math.log(sizes[-1] / sizes[0])

    def x_of(rows: int) -> float:
        return left + _WIDTH * (0.06 + 0.88 * math.log(rows / sizes[0]) / span)

    def y_of(score: float) -> float:
        return bottom - _HEIGHT * (score - low) / (high - low)

    middle, heading = pixels(left + _WIDTH / 2), xml_text(shorten(column, _WIDTH))
    parts = [f'<text class="heading" x="{middle}" y="{pixels(top - 12)}" text-anchor="middle">{heading}</text>']
    for tick, (_, number) in zip(range(axis.first, axis.last + 1), axis.ticks, strict=True):
        y = y_of(tick * axis.step)
        ends = f'x1="{pixels(left)}" x2="{pixels(left + _WIDTH)}" y1="{pixels(y)}" y2="{pixels(y)}"'
        parts.append(f'<line class="grid" {ends}/>')
        at = f'x="{pixels(left - 8)}" y="{pixels(y + 4)}"'
        parts.append(f'<text class="small" {at} text-anchor="end">{number}</text>')
    for size in sizes:
        at = f'x="{pixels(x_of(size))}" y="{pixels(bottom + 18)}"'
        parts.append(f'<text class="small" {at} text-anchor="middle">{size:,}</text>')
    parts.append(
        f'<text class="small" x="{middle}" y="{pixels(bottom + 36)}" text-anchor="middle">training rows</text>'
    )
    for place, method in enumerate(methods):
        shift = _SHIFT * (place - (len(methods) - 1) / 2)
        own = sorted((point for point in points if point.method == method), key=lambda point: point.rows)
        places = [(x_of(point.rows) + shift, y_of(point.score)) for point in own]
        path = "L".join(f"{pixels(x)} {pixels(y)}" for x, y in places)
        parts += [f'<g class="method-{place % _COLOURS}">', *([f'<path class="line" d="M{path}"/>'] if own else [])]
        for point, (x, y) in zip(own, places, strict=True):
            parts.append(f"<g><title>{xml_text(point.description)}</title>")
            if point.low is not None and point.high is not None:
                ends = f'y1="{pixels(y_of(point.low))}" y2="{pixels(y_of(point.high))}"'
                parts.append(f'<line class="interval" x1="{pixels(x)}" x2="{pixels(x)}" {ends}/>')
            parts.append(f'<circle class="dot" cx="{pixels(x)}" cy="{pixels(y)}" r="3.5"/></g>')
        parts.append("</g>")
    return parts
