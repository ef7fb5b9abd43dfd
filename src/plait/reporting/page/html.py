"""A page as one HTML file that needs nothing else: its style, scripts and data are inside.

Jinja2 escapes every text. The specifications of charts are JSON in which `<`, `>` and `&` are escaped, so that no text
of the data can end the script element. The content security policy names the two scripts by their digests and forbids
every request.
"""

import base64
import hashlib
import re
from pathlib import Path

from plait.reporting.page.blocks import Block, Chart, ChartGroup, Page, Part, Spec
from plait.reporting.page.bundle import chart_library

__all__ = ["page_html"]

_FILES = Path(__file__).parent / "files"
_NUMBER = re.compile(r"[+−-]?[\d.,]+ ?[%s]?|–|")


def page_html(page: Page) -> str:
    """The page as HTML."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_FILES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["is_number"] = _is_number
    environment.tests["kind"] = lambda block, name: type(block).__name__ == name
    charts = [chart for section in page.sections for block in section.blocks for chart in _charts(block)]
    scripts = [chart_library(), (_FILES / "page.js").read_text(encoding="utf-8")] if charts else []
    places = {id(chart): place for place, chart in enumerate(charts)}
    return environment.get_template("page.html").render(
        page=page,
        style=(_FILES / "page.css").read_text(encoding="utf-8"),
        scripts=scripts,
        policy=_policy(scripts),
        place=lambda chart: places[id(chart)],
        specs=[_without_schema(chart.draw()) for chart in charts],
    )


def _charts(block: Block) -> list[Chart]:
    """The charts of a block, in the order of the page."""
    if isinstance(block, ChartGroup):
        return list(block.charts)
    return [chart for inner in block.blocks for chart in _charts(inner)] if isinstance(block, Part) else []


def _without_schema(spec: Spec) -> Spec:
    """A specification that names no address."""
    return {key: value for key, value in spec.items() if key != "$schema"}


def _policy(scripts: list[str]) -> str:
    """The content security policy: these scripts, styles of the page, and nothing from elsewhere."""
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _is_number(cell: str) -> bool:
    return bool(_NUMBER.fullmatch(cell))
