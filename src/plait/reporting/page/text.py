"""A page in short, as plain text: headline figures, tables and notes, without charts."""

from collections.abc import Iterator, Sequence

from plait.reporting.page.blocks import Block, Cards, ExampleList, Notes, Page, PageTable, Part

__all__ = ["page_text"]

_EXAMPLES = 3  # of each list
_WIDTH = 100


def page_text(page: Page) -> str:
    """The page for a terminal or a log."""
    lines = [page.title, page.subtitle, *(f"note: {note}" for note in page.notes)]
    for section in page.sections:
        body = [line for block in section.blocks for line in _lines(block)]
        if body:
            lines += ["", section.title, "─" * len(section.title), *body]
    return "\n".join(lines).rstrip() + "\n"


def _lines(block: Block) -> Iterator[str]:
    """A block as lines; nothing for charts and code."""
    if isinstance(block, Cards):
        yield from _aligned([[card.title, card.value, card.about, "; ".join(card.details)] for card in block.cards])
    elif isinstance(block, PageTable) and block.brief:
        yield from _aligned([list(block.names), *block.rows])
    elif isinstance(block, Notes):
        yield from block.sentences
    elif isinstance(block, ExampleList):
        yield block.caption
        for example in block.examples[:_EXAMPLES]:
            tags = ", ".join(f"{tag.name} {tag.value}" for tag in example.tags)
            yield _cut(f"  {tags}: {' | '.join(example.texts)}")
    elif isinstance(block, Part):
        body = [line for inner in block.blocks for line in _lines(inner)]
        if body:
            yield from [block.title, *(f"  {line}" for line in body)]


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns of equal width."""
    flat = [[" ".join(cell.split()) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*flat, strict=True)]
    for row in flat:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _cut(line: str) -> str:
    flat = line[: 4 * _WIDTH].replace("\n", " ")
    return flat if len(flat) <= _WIDTH else flat[: _WIDTH - 1] + "…"
