"""What a page consists of: sections of blocks, which `html.py` and `text.py` both read."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "Block",
    "Card",
    "Cards",
    "Chart",
    "ChartGroup",
    "Code",
    "ExampleList",
    "Notes",
    "Page",
    "PageTable",
    "Part",
    "Section",
    "ShownExample",
    "Spec",
    "Tag",
]

Spec = dict[str, Any]  # a Vega-Lite specification


@dataclass(frozen=True)
class Card:
    """A headline figure."""

    title: str
    value: str
    about: str  # what the figure is
    details: tuple[str, ...] = ()
    verdict: str = ""  # better, worse, or ""
    colour: str = ""


@dataclass(frozen=True)
class Cards:
    """Headline figures side by side."""

    cards: Sequence[Card]


@dataclass(frozen=True)
class PageTable:
    """A table; columns whose cells are numbers are aligned to the right."""

    names: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    brief: bool = True  # whether the short text has it too


@dataclass(frozen=True)
class Chart:
    """A chart, drawn when the page is written, and how to read it."""

    title: str
    caption: str
    draw: Callable[[], Spec]


@dataclass(frozen=True)
class ChartGroup:
    """Charts beside each other where there is room."""

    charts: Sequence[Chart]
    columns: int = 2  # at most


@dataclass(frozen=True)
class Tag:
    """A short fact beside an example."""

    name: str
    value: str
    kind: str = ""  # right, wrong, or ""


@dataclass(frozen=True)
class ShownExample:
    """One row of the data with what is said about it."""

    texts: tuple[str, ...]
    tags: tuple[Tag, ...]
    where: str = ""
    nearest: tuple["ShownExample", ...] = ()


@dataclass(frozen=True)
class ExampleList:
    """A list of rows of the data."""

    caption: str
    examples: Sequence[ShownExample]


@dataclass(frozen=True)
class Notes:
    """Sentences, each on its own."""

    sentences: Sequence[str]


@dataclass(frozen=True)
class Code:
    """Text to copy."""

    title: str
    text: str
    closed: bool = False  # whether it is folded away at first


@dataclass(frozen=True)
class Part:
    """The blocks of one task inside a section."""

    title: str
    blocks: Sequence["Block"]
    colour: str = ""


Block = Cards | PageTable | ChartGroup | ExampleList | Notes | Code | Part


@dataclass(frozen=True)
class Section:
    """A part of a page that its contents list names."""

    title: str
    about: str
    blocks: Sequence[Block]

    @property
    def key(self) -> str:
        """Its anchor."""
        return "-".join(self.title.lower().split())


@dataclass(frozen=True)
class Page:
    """A whole report."""

    title: str
    subtitle: str
    sections: Sequence[Section]
    notes: Sequence[str] = field(default=())  # what is missing or was sampled
