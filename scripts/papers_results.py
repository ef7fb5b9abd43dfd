"""Put the tables and figures of results/ into docs/results.md, between the marks that each suite has there.

python scripts/papers_results.py
"""

import shutil
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
DOCS = REPO / "docs"


def main() -> None:
    """Every suite whose table was written since."""
    page = (DOCS / "results.md").read_text(encoding="utf-8")
    for table in sorted((REPO / "results").glob("*/table.md")):
        name = table.parent.name
        begin, end = (f"<!-- {word} {name}: written by scripts/papers_results.py -->" for word in ("table", "end of"))
        if begin not in page:
            raise SystemExit(f"docs/results.md has no place for {name}; add a line {begin!r} and a line {end!r}")
        shutil.copy(table.with_name("figure.svg"), DOCS / f"{name}.svg")
        before, _, rest = page.partition(begin)
        _, _, after = rest.partition(end)
        picture = f"![The paper's figures and the measured ones]({name}.svg)"
        page = f"{before}{begin}\n\n{table.read_text(encoding='utf-8').strip()}\n\n{picture}\n\n{end}{after}"
    (DOCS / "results.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
