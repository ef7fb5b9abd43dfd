"""A table as a picture: the paper's figure and the measured one for every row, a panel for each column, as SVG."""

import math
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

__all__ = ["Mark", "draw_figure"]

MARGIN = 24
ROW = 26  # height
PANEL = 210  # width
GAP = 44  # between panels, and between the names and the first
PANELS = 4  # side by side; further ones stand below
HEADING = 30  # height of a panel's heading
AXIS = 30  # height of the numbers below a panel
NAME = 280  # width that a row's name may take
TEXT, SMALL, LARGE = 13, 11, 17  # sizes of type
LEGEND = ("paper", "measured: mean and 95 % interval over cells")
SIZES = f"""
.figure text {{ font-size: {TEXT}px }}
.figure .large {{ font-size: {LARGE}px }}
.figure .small {{ font-size: {SMALL}px }}"""
# Light colours first; orange and blue are told apart by those who do not see red and green.
STYLE = """
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
        """All that needs a place on the axis."""
        return [value for value in (self.paper, self.measured, self.low, self.high) if value is not None]

    @property
    def told(self) -> str:
        """The mark in words."""
        parts = [f"paper {self.paper:.3f}"] if self.paper is not None else []
        if self.measured is not None:
            interval = f" ({self.low:.3f} to {self.high:.3f})" if self.low is not None and self.high is not None else ""
            parts.append(f"measured {self.measured:.3f}{interval}")
        return f"{self.row}, {self.column}: {', '.join(parts)}"


@dataclass(frozen=True)
class Axis:
    """Round numbers from left to right."""

    left: float
    first: int  # tick, in steps from 0
    last: int
    step: float

    def place(self, value: float) -> float:
        """Where a value stands."""
        return self.left + PANEL * (value / self.step - self.first) / (self.last - self.first)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Each tick's place and number."""
        digits = max(0, -math.floor(math.log10(self.step) + 1e-9))
        numbers = [tick * self.step for tick in range(self.first, self.last + 1)]
        return [(self.place(number), f"{number:.{digits}f}") for number in numbers]


def draw_figure(title: str, marks: Sequence[Mark]) -> str:
    """The SVG of a table; rows and columns stand in the order of the marks."""
    rows = list(dict.fromkeys(mark.row for mark in marks))
    columns = list(dict.fromkeys(mark.column for mark in marks))
    bands = [columns[start : start + PANELS] for start in range(0, len(columns), PANELS)]
    names = [shorten(row, NAME) for row in rows]
    left = MARGIN + max((width_of(name) for name in names), default=0) + GAP / 2
    panels = max((len(band) for band in bands), default=1)
    wide = max(left + panels * (PANEL + GAP), 2 * MARGIN + width_of(title, LARGE), 2 * MARGIN + legend_places()[-1][1])
    top, parts = 84.0, []
    for band in bands:
        parts += draw_band(rows, names, band, marks, left, top)
        top += HEADING + ROW * len(rows) + AXIS + 12
    return "\n".join([*draw_head(title, rows, columns, math.ceil(wide), math.ceil(top)), *parts, "</svg>", ""])


def draw_head(title: str, rows: Sequence[str], columns: Sequence[str], wide: int, high: int) -> list[str]:
    """The beginning of the file: what it is, its colours, its title and its legend."""
    key = f"figure-{zlib.crc32(title.encode(errors='replace')):08x}"  # a page may hold several
    (diamond, first), (dot, second) = ((mark, mark + 14) for mark, _ in legend_places())
    about = f"{len(rows)} rows; for each, in {', '.join(columns)}: the paper's figure and the measured mean"
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="figure" viewBox="0 0 {wide} {high}" width="{wide}" '
        f'height="{high}" role="img" aria-labelledby="{key}-title" aria-describedby="{key}-about">',
        f'<title id="{key}-title">{clean(title)}</title>',
        f'<desc id="{key}-about">{clean(about)}, with its 95 % interval over cells.</desc>',
        f"<style>{SIZES}{STYLE}</style>",
        f'<rect class="back" width="{wide}" height="{high}"/>',
        f'<text class="large" x="{MARGIN}" y="34">{clean(title)}</text>',
        f'<path class="paper" d="{diamond_at(diamond, 60)}"/>',
        f'<text class="small" x="{short(first)}" y="64">{LEGEND[0]}</text>',
        f'<line class="interval" x1="{short(dot - 9)}" x2="{short(dot + 9)}" y1="60" y2="60"/>',
        f'<circle class="measured" cx="{short(dot)}" cy="60" r="4"/>',
        f'<text class="small" x="{short(second)}" y="64">{LEGEND[1]}</text>',
    ]


def legend_places() -> list[tuple[float, float]]:
    """Where the sign of each entry of the legend stands, and where its words end."""
    diamond = MARGIN + 7.0
    dot = diamond + 14 + width_of(LEGEND[0], SMALL) + 26
    return [(diamond, dot - 26), (dot, dot + 14 + width_of(LEGEND[1], SMALL))]


def draw_band(
    rows: Sequence[str], names: Sequence[str], columns: Sequence[str], marks: Sequence[Mark], left: float, top: float
) -> list[str]:
    """The names of the rows, and panels side by side."""
    first = top + HEADING
    lefts = [left + number * (PANEL + GAP) for number in range(len(columns))]
    bars = [(place - 10, place + PANEL + 10) for place in lefts]
    bars[0] = (MARGIN / 2, bars[0][1])  # from the name on
    parts = []
    for number, (row, name) in enumerate(zip(rows, names, strict=True)):
        y = first + ROW * number
        for start, end in bars if number % 2 == 0 else ():
            box = f'x="{short(start)}" y="{short(y)}" width="{short(end - start)}" height="{ROW}"'
            parts.append(f'<rect class="stripe" {box} rx="4"/>')
        tip = f"<title>{clean(row)}</title>" if name != row else ""
        parts.append(
            f'<text class="name" x="{short(left - GAP / 2)}" y="{short(y + ROW / 2 + 4.5)}" text-anchor="end">'
            f"{tip}{clean(name)}</text>"
        )
    for place, column in zip(lefts, columns, strict=True):
        shown = [mark for mark in marks if mark.column == column]
        axis = round_axis((value for mark in shown for value in mark.values), place)
        parts += draw_axis(axis, column, first, first + ROW * len(rows))
        for mark in shown:
            parts += draw_mark(mark, axis, first + ROW * (rows.index(mark.row) + 0.5))
    return parts


def draw_axis(axis: Axis, column: str, top: float, bottom: float) -> list[str]:
    """A panel's heading, its grid and its numbers."""
    name = shorten(column, PANEL + GAP - 10)
    tip = f"<title>{clean(column)}</title>" if name != column else ""
    middle = short(axis.left + PANEL / 2)
    parts = [f'<text class="heading" x="{middle}" y="{short(top - 12)}" text-anchor="middle">{tip}{clean(name)}</text>']
    for x, number in axis.ticks:
        parts.append(f'<line class="grid" x1="{short(x)}" x2="{short(x)}" y1="{short(top)}" y2="{short(bottom + 4)}"/>')
        parts.append(
            f'<text class="small" x="{short(x)}" y="{short(bottom + 18)}" text-anchor="middle">{number}</text>'
        )
    return parts


def draw_mark(mark: Mark, axis: Axis, y: float) -> list[str]:
    """The paper's diamond about or beside the measured dot."""
    parts = []
    if mark.low is not None and mark.high is not None:
        low, high = short(axis.place(mark.low)), short(axis.place(mark.high))
        parts.append(f'<line class="interval" x1="{low}" x2="{high}" y1="{short(y)}" y2="{short(y)}"/>')
    if mark.measured is not None:
        parts.append(f'<circle class="measured" cx="{short(axis.place(mark.measured))}" cy="{short(y)}" r="4"/>')
    if mark.paper is not None:
        parts.append(f'<path class="paper" d="{diamond_at(axis.place(mark.paper), y)}"/>')
    return [f"<g><title>{clean(mark.told)}</title>", *parts, "</g>"] if parts else []


def round_axis(values: Iterable[float], left: float) -> Axis:
    """An axis of three to six round numbers about some values."""
    given = list(values) or [0.0, 1.0]
    low, high = min(given), max(given)
    if low == high:
        half = abs(low) / 20 or 0.05
        low, high = low - half, high + half
    rough = (high - low) / 4
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(step for step in (size, 2 * size, 5 * size, 10 * size) if step >= rough * (1 - 1e-9))
    return Axis(left, math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9), step)


def diamond_at(x: float, y: float) -> str:
    """The outline of a diamond about a point."""
    return f"M{short(x)} {short(y - 6)}l6 6l-6 6l-6 -6z"


def width_of(text: str, size: float = TEXT) -> float:
    """About how wide a text is, rather too wide than too narrow for any usual font."""
    return size * sum(width_of_letter(letter) for letter in text)


def width_of_letter(letter: str) -> float:
    """In heights of the type."""
    if letter in "mwMW@%…—" or ord(letter) > 0x2E7F:  # Chinese, Japanese and Korean letters begin there
        return 1.05
    if letter in "fijlrt.,:;|!'() ":
        return 0.45
    return 0.8 if letter.isupper() else 0.66


def shorten(text: str, width: float) -> str:
    """The text, or as much of its beginning as there is room for."""
    if width_of(text) <= width:
        return text
    while text and width_of(text + "…") > width:
        text = text[:-1]
    return text.rstrip() + "…"


def clean(text: str) -> str:
    """A text inside XML, which has no place for control characters."""
    return escape("".join(letter if letter.isprintable() else " " for letter in text))


def short(number: float) -> str:
    """A coordinate without needless digits."""
    return f"{number:.2f}".rstrip("0").rstrip(".")
