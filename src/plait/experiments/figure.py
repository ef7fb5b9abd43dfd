"""A table as an SVG figure: the paper's figure and the measured mean of every row, with one panel per column."""

import math
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

__all__ = [
    "GAP",
    "PANEL",
    "Axis",
    "Mark",
    "draw_figure",
    "pixels",
    "round_axis",
    "shorten",
    "text_width",
    "xml_text",
]

_MARGIN = 24
_ROW = 26  # height
PANEL = 210  # width
GAP = 44  # between panels, and between the names and the first
_PANELS = 4  # side by side; the others are below
_HEADING = 30  # height of a panel's heading
_AXIS = 30  # height of the numbers below a panel
_NAME = 280  # largest width of a row's name
_TEXT, _SMALL, _LARGE = 13, 11, 17  # font sizes in pixels
_SIZES = f"""
.figure text {{ font-size: {_TEXT}px }}
.figure .large {{ font-size: {_LARGE}px }}
.figure .small {{ font-size: {_SMALL}px }}"""
# Light colours first. Orange and blue differ for readers with red-green colour blindness.
_STYLE = """
.figure text { font-family: system-ui, sans-serif; fill: #1f2328 }
.figure .large, .figure .heading { font-weight: 600 }
.figure .small { fill: #59636e; font-variant-numeric: tabular-nums }
.figure .back { fill: #ffffff }
.figure .stripe { fill: #f6f8fa }
.figure .grid { stroke: #dfe3e8; stroke-width: 1 }
.figure .paper { fill: none; stroke: #bc4c00; stroke-width: 1.75; stroke-linejoin: round }
.figure .measured { fill: #0969da }
.figure .interval { stroke: #0969da; stroke-width: 2.5; stroke-linecap: round; opacity: 0.55 }
@media (prefers-color-scheme: dark) {
  .figure text { fill: #e6edf3 }
  .figure .small { fill: #9198a1 }
  .figure .back { fill: #0d1117 }
  .figure .stripe { fill: #151b23 }
  .figure .grid { stroke: #2f353d }
  .figure .paper { stroke: #f0883e }
  .figure .measured { fill: #58a6ff }
  .figure .interval { stroke: #58a6ff }
}
"""


@dataclass(frozen=True)
class Mark:
    """What one column shows of one row."""

    row: str
    column: str
    paper: float | None = None
    measured: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def values(self) -> list[float]:
        """Everything that the axis must include."""
        return [value for value in (self.paper, self.measured, self.low, self.high) if value is not None]

    @property
    def description(self) -> str:
        """The mark in words, for screen readers and tooltips."""
        parts = [f"paper {self.paper:.3f}"] if self.paper is not None else []
        if self.measured is not None:
            interval = f" ({self.low:.3f} to {self.high:.3f})" if self.low is not None and self.high is not None else ""
            parts.append(f"measured {self.measured:.3f}{interval}")
        return f"{self.row}, {self.column}: {', '.join(parts)}"


@dataclass(frozen=True)
class Axis:
    """An axis with ticks at round numbers."""

    left: float
    first: int  # tick, in steps from 0
    last: int
    step: float

    def position(self, value: float) -> float:
        return self.left + PANEL * (value / self.step - self.first) / (self.last - self.first)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """The position and number of each tick."""
        digits = max(0, -math.floor(math.log10(self.step) + 1e-9))
        numbers = [tick * self.step for tick in range(self.first, self.last + 1)]
        return [(self.position(number), f"{number:.{digits}f}") for number in numbers]


def draw_figure(title: str, marks: Sequence[Mark], interval: str = "over cells") -> str:
    """The SVG of a table; rows and columns are in the order of the marks. `interval` says what the intervals cover."""
    has_paper = any(mark.paper is not None for mark in marks)
    legend = ("paper" if has_paper else "", f"measured: mean and 95 % interval {interval}")
    rows = list(dict.fromkeys(mark.row for mark in marks))
    columns = list(dict.fromkeys(mark.column for mark in marks))
    bands = [columns[start : start + _PANELS] for start in range(0, len(columns), _PANELS)]
    names = [shorten(row, _NAME) for row in rows]
    left = _MARGIN + max((text_width(name) for name in names), default=0) + GAP / 2
    panels = max((len(band) for band in bands), default=1)
    wide = max(
        left + panels * (PANEL + GAP),
        2 * _MARGIN + text_width(title, _LARGE),
        2 * _MARGIN + _legend_positions(legend)[-1][1],
    )
    top, parts = 84.0, []
    for band in bands:
        parts += _draw_band(rows, names, band, marks, left, top)
        top += _HEADING + _ROW * len(rows) + _AXIS + 12
    shown = "the paper's figure and the measured mean" if has_paper else "the measured mean"
    about = f"{len(rows)} rows; for each, in {', '.join(columns)}: {shown}, with its 95 % interval {interval}."
    return "\n".join([*_draw_head(title, about, legend, math.ceil(wide), math.ceil(top)), *parts, "</svg>", ""])


def _draw_head(title: str, about: str, legend: tuple[str, str], wide: int, high: int) -> list[str]:
    """The start of the file: description, colours, title and legend."""
    key = f"figure-{zlib.crc32(title.encode(errors='replace')):08x}"  # a page may contain several figures
    (diamond, first), (dot, second) = ((mark, mark + 14) for mark, _ in _legend_positions(legend))
    paper = [
        f'<path class="paper" d="{_diamond_at(diamond, 60)}"/>',
        f'<text class="small" x="{pixels(first)}" y="64">{legend[0]}</text>',
    ]
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="figure" viewBox="0 0 {wide} {high}" width="{wide}" '
        f'height="{high}" role="img" aria-labelledby="{key}-title" aria-describedby="{key}-about">',
        f'<title id="{key}-title">{xml_text(title)}</title>',
        f'<desc id="{key}-about">{xml_text(about)}</desc>',
        f"<style>{_SIZES}{_STYLE}</style>",
        f'<rect class="back" width="{wide}" height="{high}"/>',
        f'<text class="large" x="{_MARGIN}" y="34">{xml_text(title)}</text>',
        *(paper if legend[0] else []),
        f'<line class="interval" x1="{pixels(dot - 9)}" x2="{pixels(dot + 9)}" y1="60" y2="60"/>',
        f'<circle class="measured" cx="{pixels(dot)}" cy="60" r="4"/>',
        f'<text class="small" x="{pixels(second)}" y="64">{legend[1]}</text>',
    ]


def _legend_positions(legend: tuple[str, str]) -> list[tuple[float, float]]:
    """The x of the sign of each legend entry, and of the end of its text; the first entry may be empty."""
    diamond = _MARGIN + 7.0
    dot = diamond + (14 + text_width(legend[0], _SMALL) + 26 if legend[0] else 2)
    return [(diamond, dot - 26), (dot, dot + 14 + text_width(legend[1], _SMALL))]


def _draw_band(
    rows: Sequence[str], names: Sequence[str], columns: Sequence[str], marks: Sequence[Mark], left: float, top: float
) -> list[str]:
    """The names of the rows, and one line of panels."""
    first = top + _HEADING
    lefts = [left + number * (PANEL + GAP) for number in range(len(columns))]
    bars = [(edge - 10, edge + PANEL + 10) for edge in lefts]
    bars[0] = (_MARGIN / 2, bars[0][1])  # the first also covers the name
    parts = []
    for number, (row, name) in enumerate(zip(rows, names, strict=True)):
        y = first + _ROW * number
        for start, end in bars if number % 2 == 0 else ():
            box = f'x="{pixels(start)}" y="{pixels(y)}" width="{pixels(end - start)}" height="{_ROW}"'
            parts.append(f'<rect class="stripe" {box} rx="4"/>')
        tip = f"<title>{xml_text(row)}</title>" if name != row else ""
        parts.append(
            f'<text class="name" x="{pixels(left - GAP / 2)}" y="{pixels(y + _ROW / 2 + 4.5)}" text-anchor="end">'
            f"{tip}{xml_text(name)}</text>"
        )
    for edge, column in zip(lefts, columns, strict=True):
        shown = [mark for mark in marks if mark.column == column]
        axis = round_axis((value for mark in shown for value in mark.values), edge)
        parts += _draw_axis(axis, column, first, first + _ROW * len(rows))
        for mark in shown:
            parts += _draw_mark(mark, axis, first + _ROW * (rows.index(mark.row) + 0.5))
    return parts


def _draw_axis(axis: Axis, column: str, top: float, bottom: float) -> list[str]:
    """The heading, grid and numbers of a panel."""
    name = shorten(column, PANEL + GAP - 10)
    tip = f"<title>{xml_text(column)}</title>" if name != column else ""
    middle = pixels(axis.left + PANEL / 2)
    parts = [
        f'<text class="heading" x="{middle}" y="{pixels(top - 12)}" text-anchor="middle">{tip}{xml_text(name)}</text>'
    ]
    for x, number in axis.ticks:
        parts.append(
            f'<line class="grid" x1="{pixels(x)}" x2="{pixels(x)}" y1="{pixels(top)}" y2="{pixels(bottom + 4)}"/>'
        )
        parts.append(
            f'<text class="small" x="{pixels(x)}" y="{pixels(bottom + 18)}" text-anchor="middle">{number}</text>'
        )
    return parts


def _draw_mark(mark: Mark, axis: Axis, y: float) -> list[str]:
    """The paper's diamond, the measured dot and its interval."""
    parts = []
    if mark.low is not None and mark.high is not None:
        low, high = pixels(axis.position(mark.low)), pixels(axis.position(mark.high))
        parts.append(f'<line class="interval" x1="{low}" x2="{high}" y1="{pixels(y)}" y2="{pixels(y)}"/>')
    if mark.measured is not None:
        parts.append(f'<circle class="measured" cx="{pixels(axis.position(mark.measured))}" cy="{pixels(y)}" r="4"/>')
    if mark.paper is not None:
        parts.append(f'<path class="paper" d="{_diamond_at(axis.position(mark.paper), y)}"/>')
    return [f"<g><title>{xml_text(mark.description)}</title>", *parts, "</g>"] if parts else []


def round_axis(values: Iterable[float], left: float) -> Axis:
    """An axis with three to six ticks that includes all values."""
    given = list(values) or [0.0, 1.0]
    low, high = min(given), max(given)
    if low == high:
        half = abs(low) / 20 or 0.05
        low, high = low - half, high + half
    rough = (high - low) / 4
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(step for step in (size, 2 * size, 5 * size, 10 * size) if step >= rough * (1 - 1e-9))
    return Axis(left, math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9), step)


def _diamond_at(x: float, y: float) -> str:
    """The outline of a diamond around a point."""
    return f"M{pixels(x)} {pixels(y - 6)}l6 6l-6 6l-6 -6z"


def text_width(text: str, size: float = _TEXT) -> float:
    """The approximate width of a text, overestimated for most fonts."""
    return size * sum(_letter_width(letter) for letter in text)


def _letter_width(letter: str) -> float:
    """In font sizes."""
    if letter in "mwMW@%…—" or ord(letter) > 0x2E7F:  # CJK characters begin there
        return 1.05
    if letter in "fijlrt.,:;|!'() ":
        return 0.45
    return 0.8 if letter.isupper() else 0.66


def shorten(text: str, width: float) -> str:
    """The text, truncated with … if it is wider than this."""
    if text_width(text) <= width:
        return text
    while text and text_width(text + "…") > width:
        text = text[:-1]
    return text.rstrip() + "…"


def xml_text(text: str) -> str:
    """A text inside XML, which does not allow control characters."""
    return escape("".join(letter if letter.isprintable() else " " for letter in text))


def pixels(number: float) -> str:
    """A coordinate without trailing zeros."""
    return f"{number:.2f}".rstrip("0").rstrip(".")
