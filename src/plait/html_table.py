"""Tables for notebooks, which show what `_repr_html_` returns."""

from collections.abc import Iterable, Sequence
from html import escape

__all__ = ["html_table"]


def html_table(caption: str, names: Sequence[str], rows: Iterable[Sequence[object]], note: str = "") -> str:
    """An HTML table with a sentence above it and perhaps one below; all text is escaped."""
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    below = f"<p>{escape(note)}</p>" if note else ""
    return f"<p>{escape(caption)}</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}"
